package login

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"authgate/gateway/auth"
)

// maxUserAgent is how much of a User-Agent header a login keeps, in bytes.
const maxUserAgent = 256

// Device is where a login comes from. The client says what its User-Agent is, so
// a device is for people to recognise, and decides nothing.
type Device struct {
	Client    netip.Addr `json:"client,omitzero"` // neither mapped to IPv6 nor with a zone
	UserAgent string     `json:"user_agent,omitempty"`
}

// DeviceOf returns the device that credentials come from.
func DeviceOf(creds *auth.Credentials) Device {
	return Device{Client: creds.Client.Unmap().WithZone(""), UserAgent: shortUserAgent(creds.UserAgent)}
}

// shortUserAgent returns at most maxUserAgent bytes of a header, in UTF-8 and
// without control characters.
func shortUserAgent(header string) string {
	if len(header) > maxUserAgent {
		end := maxUserAgent
		for end > 0 && !utf8.RuneStart(header[end]) {
			end--
		}
		header = header[:end]
	}
	clean := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, header)
	return strings.Clone(strings.TrimSpace(clean)) // not a part of the whole header
}

// browserPhrases are parts of the User-Agent headers of browsers, which are long and
// alike. In a compact record a control character takes the place of each, which no
// shortUserAgent contains. A phrase comes before those that it begins with.
func browserPhrases() []string {
	return []string{
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64", "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7", "Mozilla/5.0 (Macintosh; Intel Mac OS X 10",
		"Mozilla/5.0 (X11; Linux x86_64", "Mozilla/5.0 (X11; Ubuntu; Linux x86_64", "Mozilla/5.0 (iPhone; CPU iPhone OS ", "Mozilla/5.0 (iPad; CPU OS ",
		"Mozilla/5.0 (Android ", "Mozilla/5.0 (Linux; Android 10; K", "Mozilla/5.0 (Linux; Android ", "Mozilla/5.0 (",
		") AppleWebKit/537.36 (KHTML, like Gecko) Chrome/", ") AppleWebKit/537.36 (KHTML, like Gecko) ",
		" like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/", ") AppleWebKit/605.1.15 (KHTML, like Gecko) Version/", ") AppleWebKit/",
		".0.0.0 Mobile Safari/537.36", ".0.0.0 Safari/537.36", " Mobile Safari/537.36", " Safari/537.36",
		" Mobile/15E148 Safari/604.1", " Safari/605.1.15", ".0) Gecko/20100101 Firefox/", " Gecko/20100101 Firefox/", " Edg/", " OPR/", ".0.0.0", "Mobile",
	}
}

// phraseReplacers replace the phrases by control characters, and back. They are built
// once, when they are first used.
var toPhrases, fromPhrases = func() (to, from *strings.Replacer) {
	var there, back []string
	for i, phrase := range browserPhrases() {
		code := string(rune(i + 1)) // at most 0x1f
		there, back = append(there, phrase, code), append(back, code, phrase)
	}
	return strings.NewReplacer(there...), strings.NewReplacer(back...)
}()

func (d *Device) write(w *compactWriter) {
	w.unfit = w.unfit || d.Client.Zone() != "" || strings.ContainsFunc(d.UserAgent, unicode.IsControl)
	w.text(string(d.Client.AsSlice()))
	w.text(toPhrases.Replace(d.UserAgent))
}

func (d *Device) read(r *compactReader) {
	address := r.text()
	if ok := address == ""; !ok {
		d.Client, ok = netip.AddrFromSlice([]byte(address))
		r.damaged = r.damaged || !ok
	}
	d.UserAgent = fromPhrases.Replace(r.text())
}
