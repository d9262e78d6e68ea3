package main

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"authgate/gateway/config"
	"authgate/gateway/config/addition"
	"authgate/gateway/config/listening"
	"authgate/policy"
)

// added is a file after an addition.
type added struct {
	text     []byte
	lines    string // for an editor
	changes  []addition.Change
	old, new *config.Config
}

// printWarnings prints the warnings that the file had not before.
func (d *added) printWarnings(out io.Writer) {
	before := d.old.Warnings()
	for _, warning := range d.new.Warnings() {
		known := func(one config.Diagnostic) bool { return one.Key == warning.Key && one.Message == warning.Message }
		if !slices.ContainsFunc(before, known) {
			fmt.Fprintln(out, "warning: "+config.Diagnostics{warning}.Error())
		}
	}
}

// printAddition prints the changes of the file, the users of the application, and the needs of its host.
func (a *adding) printAddition(out io.Writer, place string, done added) {
	fmt.Fprintf(out, "%s has %s now, at %s:\n\n", a.to, printable(a.app.Name), place)
	for _, change := range done.changes {
		fmt.Fprintf(out, "  %s, line %d:\n", change.Section, change.Line)
		for line := range strings.Lines(change.Text) {
			fmt.Fprintf(out, "  + %s\n", strings.TrimRight(line, " \r\n"))
		}
	}
	fmt.Fprintln(out)
	if a.app.Title != "" {
		fmt.Fprintf(out, "Users who may open it find it at %s.\n", startPage(done.new))
	} else {
		fmt.Fprint(out, "The start page does not list it. With app: {title: NAME} in the route, it does.\n")
	}
	if len(a.app.Roles) == 0 && a.app.Policy == "" && !a.public && len(done.new.Providers) > 0 {
		fmt.Fprint(out, "Everybody who has an account at one of the providers may open it. "+
			"With policy in the route, only some may.\n")
	}
	if !slices.Equal(done.old.Hosts(), done.new.Hosts()) {
		a.printNeeds(out, done)
	}
}

// printNeeds prints the needs of a new host.
func (a *adding) printNeeds(out io.Writer, done added) {
	host := policy.PatternHost(a.app.Match)
	before := done.old.TLS.Domains
	public := a.cfg.PublicURL
	if !isLoopback(host) {
		fmt.Fprintf(out, "Let the DNS name %s lead to where %s leads.\n", host, public.Hostname())
	}
	switch tls := a.cfg.TLS; {
	case certified(before, host):
	case tls.Mode == listening.TLSACME && strings.HasPrefix(host, "*."): // tls.domains may lack it
		fmt.Fprintf(out, "The gateway then gets the certificates for it by itself.\n")
	case len(before) > 0 && slices.Equal(before, done.new.TLS.Domains):
		fmt.Fprintf(out, "Add %s to tls.domains: the gateway has certificates for the names there alone.\n", host)
	case tls.Mode == listening.TLSACME:
		fmt.Fprintf(out, "The gateway then gets the certificate for it by itself.\n")
	case tls.Mode == listening.TLSInternal && permitted(before, host):
	case tls.Mode == listening.TLSInternal:
		fmt.Fprintf(out,
			"The certificate of the local authority is issued anew for the host: let clients trust the new\n%s.\n",
			filepath.Join(a.cfg.DataDir, "ca.pem"))
	case tls.Mode == listening.TLSOff:
		fmt.Fprintf(out,
			"The proxy in front needs a certificate for it, and must send its requests here, as it does for\n%s.\n",
			public.Hostname())
	default:
		fmt.Fprintf(out, "The certificate in %s must cover it.\n", tls.Certificate)
	}
}

// certified reports whether a certificate for one of these names is for a host too.
func certified(names []string, host string) bool {
	_, parent, _ := strings.Cut(host, ".")
	return slices.Contains(names, host) || slices.Contains(names, "*."+parent)
}

// permitted reports whether clients of a local authority for these names accept a host too: it is below
// one of them.
func permitted(names []string, host string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return strings.HasSuffix(host, "."+strings.TrimPrefix(name, "*."))
	})
}

// startPage returns where users find their applications: at / unless a route is there.
func startPage(cfg *config.Config) string {
	root, err := policy.ParseTarget("/")
	_, taken := cfg.Table().Lookup(&policy.Request{Method: http.MethodGet, Host: cfg.Hosts()[0], Path: root})
	if err != nil || taken {
		return cfg.StartPage()
	}
	return cfg.PublicURL.String() + "/"
}
