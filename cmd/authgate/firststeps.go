package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"authgate/gateway/config"
	"authgate/policy"
)

// The answers by default.
const (
	defaultUpstream = "http://127.0.0.1:3000"
	defaultApp      = "app"
	defaultUser     = "admin"
)

// firstSteps are the answers from which init writes a configuration.
type firstSteps struct {
	site
	Upstream string // the address of the application
	App      string // its name
	Place    string // where users open it; empty: at a host beside that of the gateway
	Match    string // of its route; empty: the application has the host of the gateway
	idp
	User, Hash string // the first account
	beside
}

// settle completes the values of flags for a configuration at path, and checks them together.
// certificates tells that there is a flag for them.
func (s *firstSteps) settle(path string, certificates bool) error {
	err := s.setHost(s.Host)
	if err == nil {
		err = s.setFront(s.Front)
	}
	if err == nil && s.Proxied() && certificates {
		err = fmt.Errorf("with %s in front, it has the certificates; leave out --certificates", s.Front)
	}
	if err == nil {
		err = s.setPlace(cmp.Or(s.Place, s.likelyPlace()))
	}
	if err == nil {
		err = s.idp.settle(path)
	}
	if err == nil {
		example := *s
		example.Hash = exampleHash
		err = withoutPlaces(example.checkConfig(path))
	}
	if err != nil {
		return &usageError{err}
	}
	return nil
}

// setPlace sets the place of the application.
func (s *firstSteps) setPlace(answer string) error {
	public, err := s.public()
	if err != nil {
		return err
	}
	match, err := readPlace(answer, public)
	if err != nil {
		return err
	}
	host, path, _ := strings.Cut(match, "/")
	switch own := strings.EqualFold(strings.Trim(host, "[]"), s.host()); {
	case own && path == "":
		match = ""
	case s.Local() && !isLoopback(strings.Trim(host, "[]")):
		return fmt.Errorf("a test is for this machine alone, and %s may be another; give a host like app.localhost",
			host)
	}
	s.Place, s.Match = answer, match
	return nil
}

// likelyPlace returns a host of the application beside that of the gateway, or the gateway's own: no
// other leads to an address.
func (s *firstSteps) likelyPlace() string { return cmp.Or(besideHost(s.host(), s.App), s.Host) }

// StartPage is where users find their applications: at / unless an application is there.
func (s *firstSteps) StartPage() string {
	if s.Match == "" {
		return s.PublicURL() + ownPrefix + config.EndpointApps
	}
	return s.PublicURL() + "/"
}

// AppURL is where users open the application.
func (s *firstSteps) AppURL() string {
	public, err := s.public()
	if err != nil || s.Match == "" {
		return s.PublicURL() + "/"
	}
	return placeURL(public, s.Match)
}

// Names are the hosts at which clients reach the gateway, without a port.
func (s *firstSteps) Names() []string {
	names := []string{s.host()}
	if host, _, _ := strings.Cut(s.Match, "/"); host != "" && !strings.EqualFold(host, s.host()) {
		names = append(names, host)
	}
	return names
}

// checkAnswers returns the mistakes that the answers so far would be in a configuration at path, in the
// words of its check.
func (s firstSteps) checkAnswers(path string) error {
	s.Hash = exampleHash
	err := s.checkConfig(path)
	if problems, ok := errors.AsType[config.Diagnostics](err); ok {
		err = nil
		for _, problem := range problems {
			err = errors.Join(err, errors.New(problem.Message))
		}
	}
	return errors.Join(err, s.checkUser())
}

// checkConfig checks the configuration without the files that are to be beside it.
func (s firstSteps) checkConfig(path string) error {
	if s.Accounts = ""; s.secret != "" {
		s.SecretFile = ""
	}
	text, err := fill(initTemplate, &s)
	if err == nil {
		_, err = config.Parse(path, text)
	}
	return err
}

// checkUser refuses a name of the first user that looks like another one, of which the configuration
// only warns.
func (s *firstSteps) checkUser() error {
	if err := policy.CheckVisible(s.User); err != nil {
		return &usageError{fmt.Errorf("the user name %w", err)}
	}
	return nil
}

// exampleHash is of no password, and has the form of a hash.
const exampleHash = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
