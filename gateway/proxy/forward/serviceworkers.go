package forward

import (
	"net/http"
	"slices"
	"strings"
)

// A service worker is code of an application that a browser keeps for a host. It
// sees each page load there, those of the gateway's own pages too, and answers in
// place of the gateway: it could read a ticket before the gateway gets it. A page
// of the application is enough to register one, so a single injected script would
// stay. Its script must come by a request that tells its purpose (Service
// Workers, section 4.3), which is where the gateway refuses it.

// workerScope is the header by which the application widens the paths of which a
// service worker gets the requests (Service Workers, section 6.3).
const workerScope = "Service-Worker-Allowed"

// withoutWorkers changes the header of a response so that no service worker gets
// its script. A browser may take it from its cache, where it is as a plain script:
// Vary makes it ask again.
func withoutWorkers(h http.Header) {
	delete(h, workerScope)
	if isScript(h["Content-Type"]) && !slices.Contains(h["Vary"], "Service-Worker") {
		h["Vary"] = append(slices.Clip(h["Vary"]), "Service-Worker")
	}
}

// isScript reports whether a browser may take a response for a script: the name of each such
// media type has this word (MIME Sniffing, section 4.6). Another type that has it gets Vary
// too, which does no harm.
func isScript(media []string) bool {
	for _, value := range media {
		name, _, _ := strings.Cut(value, ";")
		if strings.Contains(strings.ToLower(name), "script") {
			return true
		}
	}
	return false
}
