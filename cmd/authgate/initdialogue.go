package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"authgate/gateway/config/listening"
	"authgate/gateway/endpoint/signin"
	"authgate/gateway/proxy/web"
)

// dialogue asks for the first steps, one thing at a time.
type dialogue struct {
	steps *firstSteps
	path  string                 // of the configuration
	given func(flag string) bool // a value of a flag is not asked for, unless it is wrong
	typist
}

// ask asks for values that no flag gives, and for a password. It checks each answer before it
// asks for the next.
func (d *dialogue) ask() (plain string, err error) {
	s, wanted := d.steps, *d.steps
	if d.given("host") {
		_ = s.setHost(s.Host) // askFor tells the mistake
		wanted.Host = s.Host
	}
	if err := d.askFront(); err != nil {
		return "", err
	}
	// Ignore mistakes in keys that have not been asked for yet.
	s.Upstream, s.User, s.Certificates = defaultUpstream, defaultUser, listening.TLSInternal
	s.App, s.Place, s.idp = defaultApp, "", idp{}
	if !s.Local() || d.given("host") {
		fallback := ""
		if d.given("host") {
			fallback = wanted.Host
		}
		err := d.askFor("host", "Host of the gateway, where users sign in and find their "+
			"applications, such as home.example.org", fallback, s.setHost)
		if err != nil {
			return "", err
		}
	}
	if s.Front == frontNothing {
		if err := d.askCertificates(wanted.Certificates); err != nil {
			return "", err
		}
	}
	if err := d.askApplication(wanted); err != nil {
		return "", err
	}
	if err := d.askProvider(wanted.idp); err != nil {
		return "", err
	}
	err = d.askFor("user", "Name of the first user, who gets the role admin", wanted.User, setText(&s.User))
	if err != nil {
		return "", err
	}
	return d.askPassword()
}

// askApplication asks where the application is, and where users open it.
func (d *dialogue) askApplication(wanted firstSteps) error {
	s := d.steps
	err := d.askFor("upstream", "Address of the application", wanted.Upstream, setText(&s.Upstream))
	if err == nil {
		err = d.askFor("app", "Its name, such as wiki", wanted.App, setText(&s.App))
	}
	if err != nil {
		return err
	}
	fallback := cmp.Or(wanted.Place, s.likelyPlace())
	return d.askFor("app-host", "Host at which users open it", fallback, s.setPlace)
}

// setText returns a function that takes an answer as it is.
func setText(answer *string) func(string) error {
	return func(typed string) error { *answer = typed; return nil }
}

// askFor asks one thing, unless a flag says it, and checks the configuration with it.
func (d *dialogue) askFor(flag, text, fallback string, set func(string) error) error {
	checked := func(answer string) error {
		before := *d.steps
		err := set(answer)
		if err == nil {
			if problems := d.steps.findMistakes(d.path); len(problems) > 0 {
				err = errors.New(strings.Join(problems, "\n"))
			}
		}
		if err != nil {
			*d.steps = before
		}
		return err
	}
	if d.given(flag) {
		err := checked(fallback)
		if err == nil {
			return nil
		}
		d.say("--%s: %v\n", flag, err)
		fallback = ""
	}
	return question{text, fallback, checked}.ask(d)
}

// askFront asks for the front of the gateway.
func (d *dialogue) askFront() error {
	s := d.steps
	if d.given("front") {
		err := s.setFront(s.Front)
		if err == nil {
			return nil
		}
		d.say("--front: %v\n", err)
	} else if d.given("host") && isLoopback(s.host()) {
		return s.setFront("")
	}
	d.say("What is in front of the gateway?\n" +
		"  nothing                          clients reach it directly, and it has the certificates\n" +
		"  nginx, caddy, traefik, haproxy   a proxy on this machine, which has the certificates\n" +
		"  test                             nothing: it is for a test on this machine, at localhost\n")
	fallback := frontTest
	if d.given("host") {
		fallback = frontNothing
	}
	return question{"In front", fallback, s.setFront}.ask(d)
}

// askCertificates asks where the certificates come from.
func (d *dialogue) askCertificates(fallback string) error {
	s := d.steps
	if !d.given("certificates") {
		if fallback = listening.TLSInternal; isPublic(s.host()) {
			fallback = listening.TLSACME
		}
	}
	return d.askFor("certificates",
		"Certificates: acme (Let's Encrypt, which must reach ports 80 and 443) or internal (a local authority)",
		fallback, func(answer string) error {
			if answer = strings.ToLower(answer); answer != listening.TLSACME && answer != listening.TLSInternal {
				return fmt.Errorf("%q is neither acme nor internal", answer)
			}
			s.Certificates = answer
			return nil
		})
}

// isPublic reports whether a public authority may have a certificate for a host.
func isPublic(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil || !strings.Contains(host, ".") {
		return false
	}
	for _, private := range []string{".localhost", ".local", ".lan", ".home", ".internal", ".test", ".home.arpa"} {
		if strings.HasSuffix(strings.ToLower(host), private) {
			return false
		}
	}
	return true
}

// askPassword asks for a password that the user could also choose on the account page.
func (d *dialogue) askPassword() (string, error) {
	d.say("Password of %s\n", d.steps.User)
	for {
		typed, err := d.secret()
		if err != nil {
			return "", err
		}
		err = signin.CheckNewPassword(typed[0], typed[1])
		if refused, ok := errors.AsType[*web.Error](err); ok {
			d.say("  %s\n", refused.Detail)
			continue
		}
		if err = errors.Join(err, checkPassword(typed[0])); err == nil {
			return typed[0], nil
		}
		d.say("  %v\n", err)
	}
}
