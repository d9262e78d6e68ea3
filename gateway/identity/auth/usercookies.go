package auth

import (
	"net/http"
	"strings"
	"time"

	"authgate/gateway/wire/cookiename"
)

// application knows the cookies of an application by their names in the browser.
type application struct {
	names *CookieNames
	keep  bool             // the gateway's cookies pass too
	owner cookiename.Owner // of the user
	owned map[string]bool  // names of the cookies of owner that the browser has; may be nil
}

// findOwned notes which cookies of the owner are in the lines of a Cookie header.
func (a *application) findOwned(lines []string) {
	if a.owner == "" {
		return
	}
	for name := range cookiesIn(lines) {
		if own, ok := a.owner.ForApplication(name); ok && !a.names.has(own) {
			if a.owned == nil {
				a.owned = map[string]bool{}
			}
			a.owned[a.rename(own)] = true
		}
	}
}

// name returns the name that the application has for a cookie. It reports false if the cookie does
// not reach it. Of two cookies with one name only the owner's passes: another user may have left
// the other one, and in the browser, too, scripts cannot replace a cookie that is not theirs.
func (a *application) name(name string) (own string, passes bool) {
	if own, ok := a.owner.ForApplication(name); ok {
		return a.rename(own), !a.names.has(own)
	}
	own = a.rename(name)
	return own, !cookiename.Owned(name) && !a.owned[own] && (a.keep || !a.names.has(name))
}

// rename returns the name that the application has for a cookie of any owner.
func (a *application) rename(name string) string {
	own := cookiename.ForApplication(name)
	if a.keep && a.names.has(own) {
		return name
	}
	return own
}

// cookiesIn yields the names and values in the lines of a Cookie header.
func cookiesIn(lines []string) func(yield func(name, value string) bool) {
	return func(yield func(name, value string) bool) {
		for _, line := range lines {
			for line != "" {
				var name, value string
				if name, value, line = nextCookie(line); !yield(name, value) {
					return
				}
			}
		}
	}
}

// longestCookie is the longest name and value that browsers keep (RFC 6265bis, section 5.6).
const longestCookie = 4096

// Owned are the Set-Cookie lines of a response for one user of the browser.
type Owned struct {
	Owner cookiename.Owner
	Sent  []string // the lines of Cookie in the request
	Now   time.Time

	// TooLong counts the cookies that browsers do not keep, because the name has become longer.
	TooLong int

	lines []string
}

// ToBrowser returns the lines that ToBrowser of CookieNames has returned, with the cookies that no
// script reads under the names of their owner. Any other cookie is that of all users. A line that
// replaces or removes a cookie does so whichever of both the browser has, because many applications
// remove a cookie with fewer attributes than they set it with.
func (o *Owned) ToBrowser(lines []string) []string {
	o.lines = make([]string, 0, len(lines))
	for _, line := range lines {
		o.addLine(line)
	}
	return o.lines
}

// addLine adds the lines that one line becomes.
func (o *Owned) addLine(line string) {
	name := cookieAt(line, "=;")
	if name == "" {
		o.lines = append(o.lines, line) // no browser keeps it
		return
	}
	pair, attributes, _ := strings.Cut(strings.TrimLeft(line, nameless), ";")
	value, owned := pair[len(name):], o.Owner.ForBrowser(name)
	switch {
	case hidden(attributes):
		if n := len(strings.TrimSpace(pair)); n <= longestCookie && n+len(owned)-len(name) > longestCookie {
			o.TooLong++
		}
		o.lines = append(o.lines, owned+value+";"+attributes)
		if o.sends(name) {
			o.lines = append(o.lines, removal(name, attributes))
		}
	case o.removes(attributes):
		o.lines = append(o.lines, line, owned+value+";"+attributes)
	default:
		o.lines = append(o.lines, line)
		if o.sends(owned) {
			o.lines = append(o.lines, removal(owned, attributes))
		}
	}
}

// hidden reports whether a cookie with these attributes is HttpOnly: scripts cannot read it.
func hidden(attributes string) bool {
	for attribute := range strings.SplitSeq(attributes, ";") {
		name, _, _ := strings.Cut(attribute, "=")
		if strings.EqualFold(strings.Trim(name, " \t"), "HttpOnly") {
			return true
		}
	}
	return false
}

// removes reports whether a line with these attributes removes its cookie.
func (o *Owned) removes(attributes string) bool {
	cookie, err := http.ParseSetCookie("x=;" + attributes)
	if err != nil || cookie.MaxAge != 0 {
		return err == nil && cookie.MaxAge < 0
	}
	return !cookie.Expires.IsZero() && !cookie.Expires.After(o.Now)
}

// sends reports whether the browser has sent a cookie of that name.
func (o *Owned) sends(name string) bool {
	for sent := range cookiesIn(o.Sent) {
		if sent == name {
			return true
		}
	}
	return false
}

// gone are the attributes of a cookie that is to be removed.
const gone = "; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT"

// removal returns the line that removes the cookie of a name in the place that attributes say.
func removal(name, attributes string) string {
	var line strings.Builder
	line.WriteString(name + "=")
	for attribute := range strings.SplitSeq(attributes, ";") {
		key, _, _ := strings.Cut(attribute, "=")
		switch strings.ToLower(strings.Trim(key, " \t")) {
		case "path", "domain", "secure", "samesite", "partitioned":
			line.WriteString(";" + attribute)
		}
	}
	return line.String() + gone
}

// How much a browser keeps for other users of it. Browsers keep some 180 cookies for a site, and
// drop any beyond that; servers refuse long headers.
const (
	mostWaiting      = 64
	mostWaitingBytes = 16 << 10
)

// Forgotten returns the lines that remove the oldest cookies of other users if there are too many.
// Browsers send those first that they have had for longest. Where a cookie is, its name does not
// tell; nearly all are at the root of the host.
func (o *Owned) Forgotten() (lines []string) {
	var waiting []string
	bytes := 0
	for name, value := range cookiesIn(o.Sent) {
		if _, own := o.Owner.ForApplication(name); cookiename.Owned(name) && !own {
			waiting, bytes = append(waiting, name), bytes+len(name)+len(value)
		}
	}
	if len(waiting) <= mostWaiting && bytes <= mostWaitingBytes {
		return nil
	}
	for _, name := range waiting[:(len(waiting)+1)/2] {
		lines = append(lines, removal(name, " Path=/; Secure"))
	}
	return lines
}
