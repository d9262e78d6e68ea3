package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"
	"unicode/utf8"

	"authgate/gateway/auth"
	"authgate/gateway/login"
	"authgate/gateway/pages"
	"authgate/policy"
)

// loginForm is what POST /login was given, in whichever of its three forms.
type loginForm struct {
	username, password string
	form               bool   // posted by the sign-in page, or like it
	returnTo           string // where the person wants to go on
	wanted             []policy.Mechanism
	challenges         []auth.Challenge
	rejection          error // credentials that cannot be right
}

// login is POST /login: it checks a password and issues a session, tokens,
// or both. Every login has a new identifier.
func (ex *exchange) login() error {
	form, err := ex.readLogin()
	if err != nil {
		return err
	}
	issue, err := ex.narrow(form.wanted)
	if err != nil {
		return err
	}
	account, err := ex.checkLogin(form)
	ex.countLogin(issue[0], err)
	if err != nil {
		return ex.loginFailed(form, err)
	}
	// Together with the new login, so that the browser does not keep the old one.
	if _, err := ex.endPresented(); err != nil {
		return err
	}
	given, err := ex.issue(account, issue)
	if err != nil {
		return err
	}
	ex.mechanism = string(issue[0])
	ex.audit("login", slog.String("subject", policy.LocalProvider+":"+account.Username), slog.String("login", given.login.ID))
	if form.form && negotiate(ex.r) == typeHTML {
		target := form.returnTo
		if target == "" {
			target = "/"
		}
		ex.redirect(http.StatusSeeOther, target)
		return nil
	}
	ex.json(typeJSON, http.StatusOK, given.response("Signed in."))
	return nil
}

// readLogin reads the credentials. A Basic header comes first and the body
// is then not looked at; else the body's media type says what it is.
func (ex *exchange) readLogin() (*loginForm, error) {
	form := &loginForm{wanted: []policy.Mechanism{policy.Session}}
	if ex.creds.Scheme == "basic" {
		form.challenges = ex.basicChallenge()
		form.username, form.password, form.rejection = auth.ParseBasic(ex.creds.Value)
		return form, nil
	}
	switch ex.mediaType() {
	case typeJSON:
		form.wanted = append(form.wanted, policy.Bearer)
		return form, form.fromJSON(ex.body)
	case typeForm:
		form.form = true
		return form, form.fromForm(ex)
	}
	if len(ex.body) == 0 && ex.r.Header.Get("Content-Type") == "" {
		form.challenges = ex.basicChallenge()
		form.rejection = errors.New("no credentials")
		return form, nil
	}
	return nil, unsupportedMedia(typeJSON + " or " + typeForm)
}

func unsupportedMedia(expected string) error {
	return &httpError{status: http.StatusUnsupportedMediaType, detail: "The body must be " + expected + "."}
}

func (ex *exchange) basicChallenge() []auth.Challenge {
	return []auth.Challenge{auth.BasicChallenge(ex.st.config.Basic.Realm)}
}

func (f *loginForm) fromJSON(body []byte) error {
	o, err := parseObject(body)
	if err != nil {
		return err
	}
	if f.username, err = o.text("username"); err != nil {
		return err
	}
	f.password, err = o.text("password")
	return err
}

func (f *loginForm) fromForm(ex *exchange) error {
	values, err := url.ParseQuery(string(ex.body))
	if err != nil {
		err = errors.New("malformed encoding") // the parser's words quote the body
	}
	if err == nil && !utf8.Valid([]byte(values.Get("username")+values.Get("password"))) {
		err = errors.New("invalid UTF-8")
	}
	for _, name := range []string{"username", "password"} {
		if err == nil && len(values[name]) != 1 {
			err = fmt.Errorf("the field %s stands there %d times", name, len(values[name]))
		}
	}
	if err != nil {
		return &httpError{status: http.StatusBadRequest, detail: "The form must have the fields username and password.", cause: err}
	}
	f.username, f.password = values.Get("username"), values.Get("password")
	f.returnTo = ex.returnTo(values.Get("return_to"))
	return nil
}

// narrow returns the mechanisms to issue: those wanted, or the one that
// ?mechanism= names, as far as a route uses them.
func (ex *exchange) narrow(wanted []policy.Mechanism) ([]policy.Mechanism, error) {
	values, err := url.ParseQuery(ex.req.Path.Query)
	if err != nil {
		return nil, &httpError{status: http.StatusBadRequest, detail: "The query is malformed.", cause: err}
	}
	if named, ok := values["mechanism"]; ok {
		m := policy.Mechanism(named[0])
		if len(named) > 1 || (m != policy.Session && m != policy.Bearer) {
			return nil, &httpError{status: http.StatusBadRequest, detail: "The mechanism must be session or bearer."}
		}
		wanted = []policy.Mechanism{m}
	}
	issue := slices.DeleteFunc(slices.Clone(wanted), func(m policy.Mechanism) bool { return !ex.st.used[m] })
	if len(issue) == 0 {
		return nil, &httpError{
			status: http.StatusBadRequest, detail: "Nothing here accepts what this login would give.",
			cause: fmt.Errorf("no route accepts %v", wanted),
		}
	}
	return issue, nil
}

// checkLogin checks the password. The work and the answer are the same
// whether or not there is such an account.
func (ex *exchange) checkLogin(form *loginForm) (*auth.Account, error) {
	if form.rejection != nil {
		return nil, &auth.Rejection{Detail: auth.DetailWrongPassword, Reason: form.rejection.Error()}
	}
	return ex.gw.verifier.CheckFresh(ex.r.Context(), ex.st.accounts, form.username, form.password, ex.peer.Client)
}

func (ex *exchange) loginFailed(form *loginForm, err error) error {
	ex.challenges = form.challenges
	result := loginResult(err)
	if result == "" {
		return err
	}
	attrs := []slog.Attr{slog.String("result", result)}
	if _, known := ex.st.accounts.Lookup(form.username); known { // else it may be a password in the wrong field
		attrs = append(attrs, slog.String("subject", policy.LocalProvider+":"+form.username))
	}
	ex.audit("login", attrs...)
	if result != loginFailure || !form.form || negotiate(ex.r) != typeHTML {
		return err
	}
	ex.err, ex.decision = err, decisionChallenge
	ex.signInPage(http.StatusUnauthorized, pages.SignIn{
		ReturnTo: form.returnTo, Username: form.username, Error: auth.DetailWrongPassword,
	})
	return nil
}

// issued is what a login gave.
type issued struct {
	ex      *exchange
	login   *login.Login
	session string
	access  string
	refresh string
	left    time.Duration // of the access token
}

// issue begins a login and makes what belongs to it. The cookies are set
// when everything is recorded.
func (ex *exchange) issue(account *auth.Account, mechanisms []policy.Mechanism) (*issued, error) {
	given := &issued{ex: ex}
	now := ex.gw.shared()
	expires := now.Add(ex.st.sessions.Lifetime())
	var handles []login.Handle
	for _, m := range mechanisms {
		switch m {
		case policy.Session:
			id, handle := ex.st.sessions.New()
			given.session, handles = id, append(handles, handle)
		case policy.Bearer:
			expires = latest(expires, ex.st.refresh.Expires(now))
			token, handle := ex.st.refresh.New(&ex.creds)
			given.refresh, handles = token, append(handles, handle)
		}
	}
	// A client that leaves now must not leave half a login behind.
	ctx, cancel := ex.storage.Recording()
	defer cancel()
	login, err := ex.st.logins.Begin(ctx, account, expires, handles...)
	if err != nil {
		return nil, err
	}
	given.login = login
	if given.refresh != "" {
		if given.access, given.left, err = ex.st.bearer.Issue(login, account); err != nil {
			return nil, err
		}
		ex.gw.metrics.tokens.WithLabelValues(tokenIssued).Inc()
	}
	if given.session != "" {
		ex.setSession(ex.st.cookies.Session, given.session, ex.st.sessions.Lifetime())
	}
	if given.refresh != "" {
		ex.deliver(given, ex.st.refresh.Expires(now))
	}
	ex.clearBefore(false, given.cookies()...)
	return given, nil
}

// cookies are the names of those that were set.
func (g *issued) cookies() []string {
	var names []string
	if g.session != "" {
		names = append(names, g.ex.st.cookies.Session)
	}
	if g.refresh != "" && g.ex.tokensByCookie() {
		names = append(names, g.ex.st.cookies.Access, g.ex.st.cookies.Refresh)
	}
	return names
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// tokenResponse is the body of a login or refresh (RFC 6749, section 5.1).
type tokenResponse struct {
	Message      string `json:"message,omitempty"`
	AccessToken  string `json:"access_token,omitempty"`
	RefreshToken string `json:"refresh_token,omitempty"`
	TokenType    string `json:"token_type,omitempty"`
	ExpiresIn    int    `json:"expires_in,omitempty"` // seconds
}

// response is the body that tells what was given. Where cookies deliver the
// tokens it carries none.
func (g *issued) response(message string) tokenResponse {
	body := tokenResponse{Message: message}
	if g.access == "" {
		return body
	}
	body.TokenType, body.ExpiresIn = "Bearer", int(g.left.Seconds())
	if !g.ex.tokensByCookie() {
		body.AccessToken, body.RefreshToken = g.access, g.refresh
	}
	return body
}
