package signin

import (
	"net/http"
	"time"

	"authgate/gateway/login"
	"authgate/gateway/people/accounts"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// Issuer begins logins of local accounts, and makes their tokens and cookies.
type Issuer struct {
	logins   *login.Logins
	sessions *login.Sessions
	refresh  *login.RefreshTokens
	tokens   *tokens
	cookies  *web.Cookies
	now      func() time.Time
}

// NewIssuer returns the issuer of a configuration.
func NewIssuer(o *Options) *Issuer {
	cookies := &o.Site.Cookies
	return &Issuer{
		logins: o.Users.Logins, sessions: o.Users.Sessions, refresh: o.Refresh, cookies: cookies, now: o.Now,
		tokens: &tokens{cookies: cookies, bearer: o.Tokens, metrics: o.Site.Service.Metrics, now: o.Now},
	}
}

// issued is a login with its tokens.
type issued struct {
	login  *login.Login
	tokens tokenPair
}

// issue begins a login of a user who has arrived, in the place of those that the browser has. It
// sets the cookies when everything is recorded.
func (i *Issuer) issue(ex *web.Exchange, a *arrival, replaces []string) (*issued, error) {
	remember := a.remember && i.sessions.Remembers()
	term := login.Term{Lifetime: i.sessions.Lifetime(remember), Remember: remember, Replaces: replaces}
	var (
		session string
		given   issued
		handles []login.Handle
	)
	for _, m := range a.mechanisms {
		switch m {
		case policy.Session:
			id, handle := i.sessions.New(ex.Credentials.Scope)
			session, handles = id, append(handles, handle)
		case policy.Bearer:
			term.Lifetime = max(term.Lifetime, i.refresh.Lifetime(remember))
			token, handle := i.refresh.New(&ex.Credentials)
			given.tokens.refresh, handles = token, append(handles, handle)
		}
	}
	// A client that leaves now must not leave half a login behind.
	ctx, end := ex.Store.Recording()
	defer end()
	var err error
	device := login.DeviceOf(&ex.Credentials)
	if given.login, err = i.logins.Begin(ctx, a.account, device, term, a.methods, handles...); err != nil {
		return nil, err
	}
	var set []string // names of cookies
	if given.tokens.refresh != "" {
		given.tokens.until = i.refresh.Expires(given.login)
		if err := i.tokens.complete(&given.tokens, given.login, a.account, web.TokenIssued); err != nil {
			return nil, err
		}
	}
	if session != "" {
		i.cookies.SetSession(ex, i.cookies.Names.Session, session, i.sessions.Lifetime(remember))
		set = append(set, i.cookies.Names.Session)
	}
	if given.tokens.refresh != "" {
		set = append(set, i.tokens.deliver(ex, given.tokens)...)
	}
	i.cookies.ClearOthers(ex, &ex.Credentials, false, set...)
	return &given, nil
}

// NewValues replace all values that the client of a login had, when its user changes the password:
// somebody else may know the old values.
type NewValues struct {
	issuer  *Issuer
	ex      *web.Exchange
	tokens  bool // the answer can give tokens
	session string
	pair    tokenPair
}

// Renewal returns the new values of the login of a request. By a form, only cookies can
// give new tokens.
func (i *Issuer) Renewal(ex *web.Exchange, form bool) *NewValues {
	return &NewValues{issuer: i, ex: ex, tokens: !form || i.cookies.Tokens()}
}

// Give makes new handles for a login: a session, and a refresh token if it has one.
func (n *NewValues) Give(l *login.Login) []login.Handle {
	i := n.issuer
	session, bySession := i.sessions.New(n.ex.Credentials.Scope)
	n.session, n.pair = session, tokenPair{}
	handles := []login.Handle{bySession}
	if until := i.refresh.Expires(l); n.tokens && l.HasTokens() && i.now().Before(until) {
		token, byToken := i.refresh.New(&n.ex.Credentials)
		n.pair = tokenPair{refresh: token, until: until}
		handles = append(handles, byToken)
	}
	return handles
}

// JSON answers with a message and the tokens.
func (n *NewValues) JSON(message string) {
	n.ex.JSON(web.TypeJSON, http.StatusOK, n.issuer.tokens.response(message, n.pair))
}

// Deliver gives the values to the client, and takes its cookies away if the login has
// ended.
func (n *NewValues) Deliver(renewed *login.Login, account *accounts.Account) error {
	i, ex := n.issuer, n.ex
	if renewed == nil {
		n.pair = tokenPair{}
		i.cookies.ClearOthers(ex, &ex.Credentials, false)
		return nil
	}
	given := []string{i.cookies.Names.Session}
	i.cookies.SetSession(ex, i.cookies.Names.Session, n.session, i.sessions.Expires(renewed).Sub(i.now()))
	if n.pair.refresh != "" {
		if err := i.tokens.complete(&n.pair, renewed, account, web.TokenIssued); err != nil {
			return err
		}
		given = append(given, i.tokens.deliver(ex, n.pair)...)
	}
	i.cookies.ClearOthers(ex, &ex.Credentials, false, given...)
	return nil
}

// tokens gives access tokens and refresh tokens to clients.
type tokens struct {
	cookies *web.Cookies
	bearer  *login.AccessTokens
	metrics *web.Metrics
	now     func() time.Time
}

// tokenPair is an access token and the refresh token for the next one.
type tokenPair struct {
	access  string
	left    time.Duration // of the access token
	refresh string
	until   time.Time // when the refresh token ends
}

// complete adds an access token to a pair, and counts the event.
func (t *tokens) complete(pair *tokenPair, login *login.Login, account *accounts.Account, event string) error {
	var err error
	if pair.access, pair.left, err = t.bearer.Issue(login, account); err != nil {
		return err
	}
	t.metrics.Token(event)
	return nil
}

// deliver sets the cookies if they deliver tokens, and returns their names.
func (t *tokens) deliver(w http.ResponseWriter, pair tokenPair) []string {
	if !t.cookies.Tokens() {
		return nil
	}
	names := t.cookies.Names
	t.cookies.Set(w, names.Access, pair.access, pair.left)
	t.cookies.Set(w, names.Refresh, pair.refresh, pair.until.Sub(t.now()))
	return []string{names.Access, names.Refresh}
}

// tokenResponse is the body of a login or refresh (RFC 6749, section 5.1).
type tokenResponse struct {
	Message      string `json:"message,omitempty"`
	AccessToken  string `json:"access_token,omitempty"`
	RefreshToken string `json:"refresh_token,omitempty"`
	TokenType    string `json:"token_type,omitempty"`
	ExpiresIn    int    `json:"expires_in,omitempty"` // seconds
}

// response returns the body that tells of a pair, which may be empty. If
// cookies deliver the tokens, the body has none.
func (t *tokens) response(message string, pair tokenPair) tokenResponse {
	body := tokenResponse{Message: message}
	if pair.access == "" {
		return body
	}
	body.TokenType, body.ExpiresIn = "Bearer", int(pair.left.Seconds())
	if !t.cookies.Tokens() {
		body.AccessToken, body.RefreshToken = pair.access, pair.refresh
	}
	return body
}
