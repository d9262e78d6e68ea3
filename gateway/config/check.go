package config

import (
	"slices"

	"authgate/gateway/config/forwarding"
	"authgate/gateway/config/issuers"
	"authgate/gateway/config/section"
	"authgate/gateway/pages"
	"authgate/gateway/people/accounts"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// checker makes the checks that need decoded values. Those of several sections are its methods,
// each in the file of the section whose keys it reports.
type checker struct {
	report *section.Report
	cfg    *Config
	places userPlaces
	refs   *references // set by all
}

// all makes all checks. It compiles the policies and the table of routes.
func (k *checker) all() {
	c, r := k.cfg, k.report
	checkPublicURL(r, c.PublicURL)
	if c.DataDir == "" {
		r.Fault("data_dir", "must not be empty; it is the folder for the store and generated keys")
	}
	c.Endpoints.checkPrefix(r)
	c.Listen.Check(r, c.TLS.Mode)
	c.TLS.Check(r)
	c.TLS.CheckClients(r, c.Certificates, k.accepts(policy.Certificate))
	c.Store.checkDriver(r, c.DataDir)
	c.Log.checkAuditFile(r, c)
	k.sharedKeys()
	c.Basic.checkRealm(r)
	accounts.CheckBasic(c.Basic.Users, k.places.basic)
	accounts.Check(c.Accounts.Users, k.places.accounts, c.Certificates.Username != "")
	k.demo()
	c.Factors.checkRPID(r, c.PublicURL)
	c.Session.checkRemember(r)
	c.Token.checkToken(r, c.PublishesKeys())
	issuers.CheckTrusted(r, c.Token.TrustedIssuers, c.Token.Issuer, c.Providers)
	k.cookies()
	k.domain()
	issuers.Check(r, c.Providers)
	c.Delegated.Check(r, c.Providers)
	c.IdentityHeaders.Check(r, "identity_headers")
	k.tokenHeader()
	forwarding.Check(r, c.Upstreams)
	k.refs = newReferences(r, c) // after accounts.Check, which removes empty roles
	k.refs.compileNamed()
	k.routes()
	k.resources()
	k.admins()
	k.oauth()
	k.warnOfTakenAway()
	k.warnOfClosed()
	k.warnOfStrangers()
	k.warnOfSignUps()
	k.warnOfHidden()
	checkWebhooks(r, c.Webhooks)
	c.Tracing.checkTracing(r)
	r.CheckValues()
}

// accepts reports whether some route accepts a mechanism.
func (k *checker) accepts(mechanism policy.Mechanism) bool {
	return slices.ContainsFunc(k.cfg.Routes, func(r Route) bool { return slices.Contains(r.Auth, mechanism) })
}

// checks returns the checks that the tags of keys name, of this package and of package section.
func checks() map[string]func(d *strictyaml.Document, path, value string) {
	all := section.Checks()
	all["scheme"] = checkRedirectScheme
	for name, check := range map[string]func(value string) error{
		"colour": pages.CheckColour, "help": checkHelp, "link": checkLink, "receiver": checkReceiver,
		"signing-secret": checkSigningSecret,
	} {
		all[name] = section.Phrase("%[2]v", section.UnlessEmpty(check))
	}
	all["event"] = section.Phrase("%[2]v", checkEvent)
	all["signing-secrets"] = section.Phrase("%[2]v", checkSigningSecret)
	all["protocol"] = section.Phrase("%q %v", checkProtocol)
	return all
}
