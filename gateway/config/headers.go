package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/config/forwarding"
	"authgate/gateway/config/section"
	"authgate/gateway/strictyaml"
	"authgate/gateway/wire/headername"
)

// routeHeaders changes the request to the upstream.
type routeHeaders struct {
	Set    map[string]string `yaml:"set"`
	Remove []string          `yaml:"remove"`
	Pass   []string          `yaml:"pass"` // headers that clients may send, which are otherwise removed
}

// hopByHop are the folded names of headers that apply to one connection (RFC
// 9110, section 7.6.1).
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// checkHeaders checks the section headers of a route at path. top has the identity headers of the top
// level.
func (h *routeHeaders) checkHeaders(
	r *section.Report, path string, upstream forwarding.Upstream, top *forwarding.IdentityHeaders,
) {
	names := routeHeaderNames{report: r, identity: map[string]bool{}, taken: map[string]string{}}
	if upstream.IdentityHeaders != nil { // else the route has no upstream
		names.addIdentity(upstream.IdentityHeaders)
	}
	if a := upstream.Assertion; a != nil {
		names.identity[headername.Fold(a.Header)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(h.Set)) {
		at := strictyaml.Join(path+".set", name)
		names.checkName(at, name, false)
		checkHeaderValue(r, at, h.Set[name])
	}
	for i, name := range h.Remove {
		names.checkName(fmt.Sprintf("%s.remove[%d]", path, i), name, false)
	}
	names.addIdentity(top) // no client may send these, even if the upstream has others
	for i, name := range h.Pass {
		at := fmt.Sprintf("%s.pass[%d]", path, i)
		if names.checkName(at, name, true) {
			names.checkPass(at, name)
		}
	}
}

// checkHeaderValue checks the value of a header for the upstream. It may be a secret, so
// a variable in it must have a text, as in a secret.
func checkHeaderValue(r *section.Report, at, value string) {
	variable, blank := r.BlankVariable(at)
	switch {
	case blank:
		r.Fault(at, `the environment variable %s is blank; set it, or write "" here for an empty header`, variable)
	case !httpguts.ValidHeaderFieldValue(value):
		r.Fault(at, "the value contains a control character, which no header can have")
	case strings.TrimSpace(value) != value:
		r.Fault(at, "the value begins or ends with a space, which HTTP removes; remove it")
	case bracePlaceholder.MatchString(value):
		r.Warn(at,
			"%s is sent as it is, because the value is the same for all requests; the application gets the user "+
				"in identity headers, whose names identity_headers sets", bracePlaceholder.FindString(value))
	case dollarPlaceholder.MatchString(value):
		r.Warn(at,
			"a name after $ is sent as it is; write an environment variable as ${NAME}. The application gets the "+
				"user in identity headers, whose names identity_headers sets")
	}
}

// bracePlaceholder and dollarPlaceholder match what other proxies replace by a value of each request.
// What begins with $ may be a part of a secret, which a message must not show.
var (
	bracePlaceholder  = regexp.MustCompile(`\{\{?\s*[.A-Za-z_][A-Za-z0-9_.-]*\s*\}?\}|%\{[A-Za-z_][^}]*\}`)
	dollarPlaceholder = regexp.MustCompile(`(?:^| )\$[A-Za-z_]+(?: |$)`)
)

// routeHeaderNames checks the names of headers under one route.
type routeHeaderNames struct {
	report   *section.Report
	identity map[string]bool   // folded names of identity headers
	taken    map[string]string // paths by folded names
}

// addIdentity adds the names of identity headers.
func (c *routeHeaderNames) addIdentity(headers *forwarding.IdentityHeaders) {
	for _, name := range headers.ByKey() {
		c.identity[headername.Fold(*name)] = *name != ""
	}
	for name := range headers.Claims {
		c.identity[headername.Fold(name)] = true
	}
}

// checkName checks a name and reports whether a route may use it. Only headers that
// clients may send (pass) can be about the request, such as X-Forwarded-Prefix.
func (c *routeHeaderNames) checkName(at, name string, pass bool) bool {
	folded := headername.Fold(name)
	problem := ""
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		problem = "%q is not the name of a header; use letters, digits and -"
	case c.identity[folded]:
		problem = "%q is an identity header, which only the gateway sets; see identity_headers"
	case folded == "Host" || folded == "Content-Length" || slices.Contains(hopByHop, folded),
		forwarding.AboutRequest(folded) && !pass:
		problem = "only the gateway sets %q"
	case c.taken[folded] != "":
		c.report.Fault(at, "%q is already listed in %s", name, c.taken[folded])
		return false
	}
	c.taken[folded] = at
	if problem != "" {
		c.report.Fault(at, problem, name)
	}
	return problem == ""
}

// checkPass checks the name of a header that the route lets clients send.
func (c *routeHeaderNames) checkPass(at, name string) {
	switch headername.Of(headername.Fold(name)) {
	case headername.Own:
		c.report.Fault(at, "%q is the gateway's alone, and no client may send it to an application", name)
	case headername.Free, headername.Framed:
		c.report.Fault(at,
			"%q has no effect, because clients may send it anyway; remove it, or correct its spelling", name)
	}
}
