package oauth

import (
	"net/http"
	"slices"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/signout"
	"authgate/gateway/identity/assertions"
	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/clients"
	"authgate/gateway/login"
	"authgate/gateway/login/grants"
	"authgate/gateway/people/accounts"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/jose"
	"authgate/gateway/wire/rate"
)

// The paths of the endpoints, below endpoints.prefix.
const (
	authorizePath  = "oauth/authorize"
	tokenPath      = "oauth/token"
	devicePath     = "oauth/device"
	revokePath     = "oauth/revoke"
	introspectPath = "oauth/introspect"
	registerPath   = "oauth/register"
	userinfoPath   = "oauth/userinfo"
	logoutPath     = "oauth/logout"
	devicePage     = "device"
)

// Server is the authorization server of one configuration, for users, programs and other parts of
// the gateway.
type Server struct {
	authorization *authorization
	devices       *devices
	programs      *programs
	logouts       *logouts
	documents     *documents
	notifier      *notifier
}

// core has the fields that all parts of a server need.
type core struct {
	options    *endpoint.Options
	site       *web.Site
	section    *config.OAuth
	issuer     string
	resources  *config.Resources
	lifetimes  lifetimes // of tokens, unless the client has its own
	audience   []string  // of tokens for no resource
	clients    *clients.Set
	assertions *assertions.Set
	grants     *grants.Grants
	consents   *grants.Consents
	ids        *jose.Keys // sign ID tokens and logout tokens
	hints      *jose.Reader
	forms      seal
	logins     *login.Logins
	accounts   *accounts.Set
	verifier   *auth.Verifier
	// hasDefault tells that a provider is where users sign in without a choice.
	hasDefault bool
}

type lifetimes struct{ access, refresh time.Duration }

// Options are the parts of a Server. All pointers are required.
type Options struct {
	Endpoint      *endpoint.Options
	Config        *config.Config
	Clients       *clients.Set
	Assertions    *assertions.Set
	Grants        *grants.Grants
	Consents      *grants.Consents
	Devices       *grants.Devices
	IDKeys        *jose.Keys // sign ID tokens and logout tokens
	Logout        *signout.Logout
	Registrations *rate.Limiter // by the client's address
	Logins        *login.Logins
	Accounts      *accounts.Set
	Verifier      *auth.Verifier
	HasDefault    bool // a provider is where users sign in without a choice
}

// New returns the authorization server of a configuration.
func New(o Options) (*Server, error) {
	backchannel, err := newBackchannel(o.Config.OAuth.Clients)
	if err != nil {
		return nil, err
	}
	c := newCore(&o)
	authorization := &authorization{c}
	return &Server{
		authorization: authorization,
		devices:       &devices{authorization, o.Devices},
		programs:      &programs{c, o.Devices, auth.NewStarts(o.Endpoint.Now), o.Registrations},
		logouts:       &logouts{c, o.Logout},
		documents:     &documents{c, o.Config.WellKnown()},
		notifier:      &notifier{c, backchannel},
	}, nil
}

func newCore(o *Options) *core {
	return &core{
		options: o.Endpoint, site: o.Endpoint.Site, section: &o.Config.OAuth, issuer: o.Config.Token.Issuer,
		resources: o.Config.Resources(),
		lifetimes: lifetimes{o.Config.Token.AccessLifetime, o.Config.Token.RefreshLifetime},
		clients:   o.Clients, assertions: o.Assertions, grants: o.Grants,
		consents: o.Consents, ids: o.IDKeys, audience: o.Config.Token.Audience,
		hints:  jose.NewReader(o.IDKeys, jose.ReaderOptions{}),
		forms:  seal{o.IDKeys.Derive("oauth forms")},
		logins: o.Logins, accounts: o.Accounts, verifier: o.Verifier, hasDefault: o.HasDefault,
	}
}

// Rows returns the endpoints below endpoints.prefix.
func (s *Server) Rows() []endpoint.Row {
	const get, post = http.MethodGet, http.MethodPost
	a, l, d, p := s.authorization, s.logouts, s.devices, s.programs
	return slices.Concat(
		[]endpoint.Row{
			{Name: authorizePath, Method: get, Home: true, Page: true, Do: a.authorize},
			// AnyOrigin: a client's page may send the request as a form; serve checks the form of consent.
			{Name: authorizePath, Method: post, Home: true, AnyOrigin: true, Do: a.authorizeByForm},
			{Name: logoutPath, Method: get, Home: true, Page: true, Do: l.endSession},
			{Name: logoutPath, Method: post, Home: true, AnyOrigin: true, Do: l.endSessionByForm},
			{Name: devicePage, Method: get, Home: true, Page: true, Do: d.showDevice},
			{Name: devicePage, Method: post, Home: true, Sessions: true, Do: d.decideDevice},
		},
		endpoint.Shared(p.byForm(tokenPath, p.token)),
		endpoint.Shared(p.byForm(devicePath, p.beginDevice)),
		endpoint.Shared(p.byForm(revokePath, p.revoke)),
		[]endpoint.Row{p.byForm(introspectPath, p.introspect)}, // servers ask, and no scripts
		endpoint.Shared(p.registration()),
		p.userinfoRows(),
	)
}

// WellKnown returns the endpoints outside endpoints.prefix, by their paths.
func (s *Server) WellKnown() map[string]*endpoint.Endpoint { return s.documents.endpoints() }

// LoginEnded tells the clients of a login that it has ended. It does not wait for them.
func (s *Server) LoginEnded(ended *login.Login) { s.notifier.loginEnded(ended) }

// byForm returns the row of an endpoint that a client asks by a form.
func (s *core) byForm(name string, do func(*web.Exchange, *call) (any, error)) endpoint.Row {
	return forPrograms(name, http.MethodPost, func(ex *web.Exchange) error {
		call, err := s.readCall(ex)
		if err != nil {
			return s.fail(ex, err)
		}
		answer, err := do(ex, call)
		if err != nil {
			return s.fail(ex, err)
		}
		ex.JSON(web.TypeJSON, http.StatusOK, answer)
		return nil
	})
}

// forPrograms returns the row of an endpoint that programs ask. Without Shared, no script of another
// origin reads its answer.
func forPrograms(name, method string, do func(*web.Exchange) error) endpoint.Row {
	return endpoint.Row{
		Name: name, Method: method, Home: true, AnyOrigin: true, NoCookies: true, OAuth: true, Do: do,
	}
}
