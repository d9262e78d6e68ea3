package app

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"golang.org/x/term"

	"authgate/gateway/config"
	"authgate/gateway/config/listening"
	"authgate/policy"
)

// maxAnnounced is how many routes and hosts an announcement lists.
const maxAnnounced = 40

// announcement has the values for people and programs when the gateway has started.
type announcement struct {
	version, configuration, publicURL string
	listeners                         [][2]string // name and address
	hosts                             []string
	authority                         string // certificate of the local authority, empty if there is none
	routes                            []announcedRoute
	warnings                          []string
}

type announcedRoute struct{ name, upstream, auth, rule string }

// announcement returns the announcement of a.
func (a *App) announcement() announcement {
	cfg := a.Config()
	of := announcement{version: a.version, configuration: a.path, publicURL: cfg.PublicURL.String(), hosts: cfg.Hosts()}
	if path, err := filepath.Abs(a.path); err == nil {
		of.configuration = path
	}
	for _, name := range [...]string{"https", "http3", "http", "admin"} {
		if address := a.server.Address(name); address != "" {
			of.listeners = append(of.listeners, [2]string{name, address})
		}
	}
	if cfg.TLS.Mode == listening.TLSInternal {
		of.authority = filepath.Join(cfg.DataDir, publicCertificate)
	}
	for _, route := range cfg.Routes {
		of.routes = append(of.routes, announceRoute(&route))
	}
	of.warnings = Warnings(cfg, config.Diagnostic.String)
	return of
}

// Warnings returns probable mistakes of a valid configuration, in one text each: first
// those in its files, as show returns them, then the rest.
func Warnings(cfg *config.Config, show func(config.Diagnostic) string) []string {
	var all []string
	for _, warning := range cfg.Warnings() {
		all = append(all, show(warning))
	}
	if users := cfg.DemoUsers(); len(users) > 0 {
		all = append(all, "demonstration passwords are public: "+strings.Join(users, ", "))
	}
	if clients := cfg.DemoClients(); len(clients) > 0 {
		all = append(all, "the client secret of the demonstration is public: "+strings.Join(clients, ", "))
	}
	for _, e := range exposed(cfg) {
		all = append(all, e.String())
	}
	return all
}

func announceRoute(route *config.Route) announcedRoute {
	mechanisms := make([]string, len(route.Auth))
	for i, mechanism := range route.Auth {
		mechanisms[i] = string(mechanism)
	}
	to := announcedRoute{name: route.Name, upstream: route.Upstream, auth: strings.Join(mechanisms, ", "),
		rule: config.PolicyText(route.Policy)}
	switch {
	case len(route.Auth) == 1 && route.Auth[0] == policy.None:
		to.rule = "public"
	case len(route.Policy) == 0 && slices.Contains(route.Auth, policy.None):
		to.rule = "everyone"
	case len(route.Policy) == 0:
		to.rule = "every user"
	}
	if to.upstream == "" {
		to.upstream = "(forward authentication)"
	}
	return to
}

// announce describes the gateway, as a block on a terminal, else in the log.
func (a *App) announce(terminal bool) {
	of := a.announcement()
	if terminal {
		_, _ = io.WriteString(a.log, of.block()) // it never fails
		a.log.Flush()
		return
	}
	a.logger.Info("started", "version", of.version, "configuration", of.configuration, "public_url", of.publicURL,
		"listeners", loggedListeners(of.listeners), "hosts", of.hosts[:min(len(of.hosts), maxAnnounced)],
		"authority", of.authority, "number_of_routes", len(of.routes),
		"routes", loggedRoutes(of.routes[:min(len(of.routes), maxAnnounced)]))
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// loggedListeners are listeners as the log has them: for programs an object, for people a text.
type loggedListeners [][2]string

// MarshalJSON implements json.Marshaler.
func (l loggedListeners) MarshalJSON() ([]byte, error) {
	addresses := map[string]string{}
	for _, listener := range l {
		addresses[listener[0]] = listener[1]
	}
	return json.Marshal(addresses)
}

// MarshalText implements encoding.TextMarshaler.
func (l loggedListeners) MarshalText() ([]byte, error) {
	var texts []string
	for _, listener := range l {
		texts = append(texts, listener[0]+" "+listener[1])
	}
	return []byte(strings.Join(texts, ", ")), nil
}

// loggedRoutes are routes as the log has them: for programs objects, for people a text.
type loggedRoutes []announcedRoute

// MarshalJSON implements json.Marshaler.
func (l loggedRoutes) MarshalJSON() ([]byte, error) {
	type route struct {
		Route    string `json:"route"`
		Upstream string `json:"upstream"`
		Auth     string `json:"auth"`
		Rule     string `json:"rule"`
	}
	routes := []route{}
	for _, r := range l {
		routes = append(routes, route{r.name, r.upstream, r.auth, r.rule})
	}
	return json.Marshal(routes)
}

// MarshalText implements encoding.TextMarshaler.
func (l loggedRoutes) MarshalText() ([]byte, error) {
	var texts []string
	for _, r := range l {
		texts = append(texts, fmt.Sprintf("%s to %s: %s (%s)", r.name, r.upstream, r.rule, r.auth))
	}
	return []byte(strings.Join(texts, "; ")), nil
}

// block returns the announcement for people.
func (of *announcement) block() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nauthgate %s runs at %s\n\n", of.version, of.publicURL)
	notes := map[string]string{"admin": "  /metrics /healthz /readyz"}
	for _, l := range of.listeners {
		fmt.Fprintf(&b, "  %-14s %s%s\n", l[0], l[1], notes[l[0]])
	}
	fmt.Fprintf(&b, "  %-14s %s\n", "hosts", plain(listed(of.hosts)))
	if of.authority != "" {
		fmt.Fprintf(&b, "  %-14s %s  (clients must trust it)\n", "authority", plain(of.authority))
	}
	fmt.Fprintf(&b, "  %-14s %s  (changes apply at once)\n\n", "configuration", plain(of.configuration))
	table := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "  ROUTE\tUPSTREAM\tAUTH\tRULE")
	for _, r := range of.routes[:min(len(of.routes), maxAnnounced)] {
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", plain(r.name), plain(r.upstream), r.auth, plain(r.rule))
	}
	_ = table.Flush() // a strings.Builder takes everything
	if more := len(of.routes) - maxAnnounced; more > 0 {
		fmt.Fprintf(&b, "  and %d more\n", more)
	}
	for i, warning := range of.warnings {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "  warning: %s\n", plain(warning))
	}
	b.WriteByte('\n')
	return b.String()
}

// listed returns names in one line.
func listed(names []string) string {
	if more := len(names) - maxAnnounced; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxAnnounced], ", "), more)
	}
	return strings.Join(names, ", ")
}

// plain replaces characters that a terminal could act on.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
