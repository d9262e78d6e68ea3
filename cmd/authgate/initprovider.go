package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/net/publicsuffix"

	"authgate/gateway/config"
	"authgate/policy"
)

// idp are the answers about an identity provider at which users sign in, beside the accounts here.
type idp struct {
	Issuer, ClientID string
	SecretFile       string // as the configuration names it; empty: a public client
	People           string // who of its users may pass: allUsers, or names, separated by commas

	secret string // to be written to SecretFile
}

// noProvider is the answer by which users sign in with the accounts here alone.
const noProvider = "none"

// addFlags adds the flags that answer the questions.
func (p *idp) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&p.Issuer, "issuer", "", "issuer of an identity provider at which users sign in too")
	flags.StringVar(&p.ClientID, "client-id", "", "client identifier that the provider has given")
	flags.StringVar(&p.SecretFile, "client-secret-file", "", "file with the client secret (default: a public client)")
	flags.StringVar(&p.People, "provider-users", "",
		`its users who may pass, by user name (at Google: address), separated by commas, or "`+allUsers+`"`)
}

// settle completes the values of flags for a configuration at path.
func (p *idp) settle(path string) error {
	if p.Issuer == noProvider {
		p.Issuer = ""
	}
	switch {
	case p.Issuer == "" && *p != (idp{}):
		return errors.New("--client-id, --client-secret-file and --provider-users are about an identity provider; " +
			"give its --issuer")
	case p.Issuer != "" && (p.ClientID == "" || p.People == ""):
		return errors.New("with --issuer, give --client-id and --provider-users too")
	}
	return cmp.Or(p.setSecretFile(path, p.SecretFile), p.checkPeople())
}

// setSecretFile sets the file with the client secret, as the configuration at path names it.
func (p *idp) setSecretFile(path, file string) (err error) {
	if p.SecretFile = file; file != "" && !filepath.IsAbs(file) {
		p.SecretFile, err = filepath.Rel(filepath.Dir(path), file)
	}
	return err
}

// Provider is the name of the provider, by the domain of its issuer.
func (p *idp) Provider() string {
	host, _, _ := strings.Cut(withoutScheme(p.Issuer), "/")
	host, _, _ = strings.Cut(strings.ToLower(host), ":")
	if domain, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		host = domain
	}
	name, _, _ := strings.Cut(host, ".")
	if !providerName.MatchString(name) || name == policy.LocalProvider {
		return "provider"
	}
	return name
}

// providerName is a name of a provider that says something.
var providerName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// Users are the users of the provider who may pass, as a policy names them; none: all of them.
func (p *idp) Users() (all []string) {
	if p.Issuer == "" || p.People == allUsers {
		return nil
	}
	for one := range strings.SplitSeq(p.People, ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, p.Provider()+":"+one)
		}
	}
	return all
}

// checkPeople refuses an answer that names no user, which would let all of them pass.
func (p *idp) checkPeople() error {
	if p.Issuer != "" && p.People != allUsers && len(p.Users()) == 0 {
		return fmt.Errorf("no user is named; %q lets in everybody who has an account at %s", allUsers, p.Issuer)
	}
	return nil
}

// askProvider asks for an identity provider.
func (d *dialogue) askProvider() error {
	p, wanted := &d.steps.idp, d.wanted.idp
	err := d.askFor("issuer", "Issuer of an identity provider at which users sign in too, such as "+
		"https://accounts.google.com", cmp.Or(wanted.Issuer, noProvider), func(answer string) error {
		if *p = (idp{Issuer: answer, ClientID: "not asked for yet"}); answer == noProvider {
			*p = idp{}
		}
		return nil
	})
	if err != nil || p.Issuer == "" {
		return err
	}
	d.say("Register this redirect URI there:\n  %s\n", d.steps.RedirectURI())
	if err := d.askFor("client-id", "Client ID that it gives", wanted.ClientID, setText(&p.ClientID)); err != nil {
		return err
	}
	if d.given("client-secret-file") {
		set := func(answer string) error { return p.setSecretFile(d.path, answer) }
		err = d.askFor("client-secret-file", "File with the client secret", wanted.SecretFile, set)
	} else {
		err = d.askSecret()
	}
	if err != nil {
		return err
	}
	set := func(answer string) error { p.People = answer; return p.checkPeople() }
	return d.askFor("provider-users", "Its users who may pass: user names (at Google: addresses), separated by "+
		"commas, or "+strconv.Quote(allUsers), wanted.People, set)
}

// askSecret asks for the client secret, which goes to a file beside the configuration.
func (d *dialogue) askSecret() error {
	p := &d.steps.idp
	for {
		typed, err := d.hidden("Client secret that it gives; nothing: it gives none: ")
		if err != nil || typed == "" {
			return err
		}
		if err = config.Secret(typed).Check(); err == nil {
			p.secret, p.SecretFile = typed, p.Provider()+".secret"
			return nil
		}
		d.say("  The client secret %v\n", err)
	}
}
