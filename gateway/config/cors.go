package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/config/section"
	"authgate/gateway/wire/cors"
	"authgate/policy"
)

// Who answers the preflights of a route.
const PreflightApplication = "application"

// CORS shares the responses of a route with scripts of other origins. Without
// Origins, the application decides.
type CORS struct {
	Preflight   string        `yaml:"preflight" default:"gateway" words:"gateway application"`
	Origins     []string      `yaml:"origins"`
	Headers     []string      `yaml:"headers"` // of requests
	Methods     []string      `yaml:"methods"`
	Expose      []string      `yaml:"expose"` // headers of responses
	Credentials bool          `yaml:"credentials"`
	MaxAge      time.Duration `yaml:"max_age" default:"10m"` // of the answer to a preflight, whole seconds
}

// checkCORS checks the section cors of a route.
func (c *CORS) checkCORS(r *section.Report, path string) {
	if !r.Given(path) {
		return
	}
	if !r.Given(path + ".origins") { // an empty list is no policy
		c.checkNoOrigins(r, path)
	}
	for i, origin := range c.Origins {
		at := fmt.Sprintf("%s.origins[%d]", path, i)
		switch {
		case origin == cors.Any:
			c.checkAny(r, path, at)
		case slices.Contains(c.Origins[:i], origin):
			r.Fault(at, "%q is listed twice", origin)
		default:
			c.checkOrigin(r, at, origin)
		}
	}
	methodOrHeader := func(list, name, hint string, values []string, wrong func(string) bool) {
		for i, value := range values {
			at := fmt.Sprintf("%s.%s[%d]", path, list, i)
			switch {
			case value == cors.Any && list != "expose" && len(values) > 1:
				r.Fault(at, `"*" means all; remove the others`)
			case value == cors.Any && list != "expose":
			case wrong(value):
				r.Fault(at, "%q is not %s; %s", value, name, hint)
			}
		}
	}
	noHeader := func(s string) bool { return !httpguts.ValidHeaderFieldName(s) || s == cors.Any }
	methodOrHeader("methods", "a method",
		`expected one in upper case, like DELETE, or ["*"]`, c.Methods, func(s string) bool {
			return !httpguts.ValidHeaderFieldName(s) || s != strings.ToUpper(s)
		})
	methodOrHeader("headers", "the name of a header", `use letters, digits and -, or ["*"] for all`,
		c.Headers, noHeader)
	methodOrHeader("expose", "the name of a header", "use letters, digits and -", c.Expose, noHeader)
	if c.MaxAge%time.Second != 0 {
		r.Fault(path+".max_age", "must be whole seconds")
	}
}

// checkNoOrigins checks that the application decides which origins may read responses.
func (c *CORS) checkNoOrigins(r *section.Report, path string) {
	if c.Preflight != PreflightApplication {
		r.Missing(path+".origins",
			`list the origins whose scripts may read responses, like https://app.example.org, or give ["*"] for all`)
		return
	}
	for _, key := range []string{"headers", "methods", "expose", "credentials", "max_age"} {
		if at := path + "." + key; r.Given(at) {
			r.Fault(at, "has no effect, because the application decides without origins; "+
				"add origins, or remove this key")
		}
	}
}

// checkAny checks what "*" among the origins excludes.
func (c *CORS) checkAny(r *section.Report, path, at string) {
	if len(c.Origins) > 1 {
		r.Fault(at, `"*" means all; remove the others`)
	}
	if c.Credentials {
		r.Fault(path+".credentials",
			`cannot be true with origins ["*"], because every site could then read what the user sees; `+
				"list the origins")
	}
}

func (c *CORS) checkOrigin(r *section.Report, at, origin string) {
	if err := cors.CheckOrigin(origin); err != nil {
		r.Fault(at, "%q %v", origin, err)
		return
	}
	u, err := url.Parse(origin)
	if err == nil && u.Scheme == "http" && c.Credentials && !policy.Loopback(u.Hostname()) {
		r.Warn(at,
			"%q is not https, so anyone on the network path of a user can act as this origin, with the user's "+
				"cookies", origin)
	}
}
