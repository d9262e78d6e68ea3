package main

import (
	"cmp"
	"errors"

	"authgate/gateway/config/listening"
	"authgate/gateway/endpoint/signin"
	"authgate/gateway/proxy/web"
)

// dialogue asks for the first steps, one thing at a time.
type dialogue struct {
	steps  *firstSteps
	wanted firstSteps             // by flags and defaults
	path   string                 // of the configuration
	given  func(flag string) bool // a value of a flag is not asked for, unless it is wrong
	typist
}

// ask asks for values that no flag gives, and for a password. It checks each answer before it
// asks for the next.
func (d *dialogue) ask() (plain string, err error) {
	s := d.steps
	if d.given("host") {
		_ = s.setHost(s.Host) // askHost tells the mistake
	}
	d.wanted = *s
	if err := d.askFront(); err != nil {
		return "", err
	}
	// Ignore mistakes in keys that have not been asked for yet.
	s.Upstream, s.User, s.Certificates = defaultUpstream, defaultUser, listening.TLSInternal
	s.App, s.Place, s.idp = defaultApp, "", idp{}
	for _, ask := range []func() error{d.askHost, d.askCertificates, d.askApplication, d.askProvider, d.askUser} {
		if err := ask(); err != nil {
			return "", err
		}
	}
	return d.askPassword()
}

// askFor asks one thing, unless a flag says it, and checks the configuration with it.
func (d *dialogue) askFor(flag, text, fallback string, set func(string) error) error {
	set = checked(d.steps, set, func() error { return d.steps.checkAnswers(d.path) })
	if d.given(flag) {
		err := set(fallback)
		if err == nil {
			return nil
		}
		d.say("--%s: %v\n", flag, err)
		fallback = ""
	}
	return question{text, fallback, set}.ask(d)
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

// askHost asks for the host of the gateway.
func (d *dialogue) askHost() error {
	fallback := ""
	if d.given("host") {
		fallback = d.wanted.Host
	} else if d.steps.Local() {
		return nil
	}
	return d.askFor("host", "Host of the gateway, where users sign in and find their "+
		"applications, such as home.example.org", fallback, d.steps.setHost)
}

// askCertificates asks where the certificates of a public gateway come from.
func (d *dialogue) askCertificates() error {
	s, fallback := d.steps, listening.TLSInternal
	switch {
	case s.Front != frontNothing:
		return nil
	case d.given("certificates"):
		fallback = d.wanted.Certificates
	case isPublic(s.host()):
		fallback = listening.TLSACME
	}
	return d.askFor("certificates",
		"Certificates: acme (Let's Encrypt, which must reach ports 80 and 443) or internal (a local authority)",
		fallback, s.setCertificates)
}

// askApplication asks where the application is, and where users open it.
func (d *dialogue) askApplication() error {
	s := d.steps
	err := d.askFor("upstream", "Address of the application", d.wanted.Upstream, setText(&s.Upstream))
	if err == nil {
		err = d.askFor("app", "Its name, such as wiki", d.wanted.App, setText(&s.App))
	}
	if err != nil {
		return err
	}
	return d.askFor("app-host", "Host at which users open it", cmp.Or(d.wanted.Place, s.likelyPlace()), s.setPlace)
}

// askUser asks for the first user.
func (d *dialogue) askUser() error {
	return d.askFor("user", "Name of the first user, who gets the role admin", d.wanted.User, setText(&d.steps.User))
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
