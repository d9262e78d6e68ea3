package signin

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"

	"authgate/gateway/endpoint/bodies"
	"authgate/gateway/identity/auth"
	"authgate/gateway/pages"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// passwordLogin is POST /login: it checks a password and issues a session,
// tokens, or both. Every login has a new identifier.
type passwordLogin struct {
	accounts *accounts.Set
	verifier *auth.Verifier
	realm    string
	used     map[policy.Mechanism]bool // by some route
	page     *signInPage
	second   *secondStep
	entrance *entrance
	metrics  *web.Metrics
}

// loginForm has the fields that a client posts, in one of three forms.
type loginForm struct {
	username, password string
	code               string        // of a second factor; empty: none
	remember           bool          // the user wants to stay signed in
	form               bool          // posted by the sign-in page, or like it
	then               places.Return // where the user wants to go on
	wanted             []policy.Mechanism
	challenges         []auth.Challenge
	rejection          error // credentials that cannot be right
}

func (l *passwordLogin) serve(ex *web.Exchange) error {
	form, err := l.readForm(ex)
	if err != nil {
		return err
	}
	mechanisms, err := l.narrow(ex, form.wanted)
	if err != nil {
		return err
	}
	account, err := l.checkPassword(ex, form)
	if err != nil {
		l.metrics.Login(mechanisms[0], err)
		return l.answerFailure(ex, form, err)
	}
	methods := []string{factors.Password}
	if account.Factors.Any() {
		if form.code == "" {
			return l.second.ask(ex, account, form)
		}
		if methods, err = l.second.checkCode(ex, account, form.code); err != nil {
			return l.wrongCode(ex, form, mechanisms[0], account, err)
		}
	}
	return l.entrance.admit(ex, &arrival{
		account: account, methods: methods, mechanisms: mechanisms, remember: form.remember, then: form.then,
		page: form.form && web.Negotiate(ex.Request) == web.TypeHTML,
	})
}

// wrongCode answers a right password with a code that was not accepted. A browser goes on
// with the page for codes.
func (l *passwordLogin) wrongCode(
	ex *web.Exchange, form *loginForm, mechanism policy.Mechanism, account *accounts.Account, err error,
) error {
	mayRetry := l.second.recordRefusal(ex, mechanism, account, err)
	if !mayRetry || !form.form || web.Negotiate(ex.Request) != web.TypeHTML {
		return err
	}
	secret, failed := l.second.beginStep(ex, account)
	if failed != nil {
		return failed
	}
	page := pages.Code{Step: secret, Remembered: form.remember, Notice: pages.NoticeCode}
	return l.second.writeAgain(ex, account, page, form.then, err)
}

// readForm reads the credentials. If there is a Basic header, the body does not
// count. Otherwise the media type tells the form of the body.
func (l *passwordLogin) readForm(ex *web.Exchange) (*loginForm, error) {
	form := &loginForm{wanted: []policy.Mechanism{policy.Session}}
	if ex.Credentials.Scheme == "basic" {
		form.challenges = l.challenges()
		form.username, form.password, form.rejection = auth.ParseBasic(ex.Credentials.Value)
		return form, nil
	}
	switch ex.MediaType() {
	case web.TypeJSON:
		form.wanted = append(form.wanted, policy.Bearer)
		return form, form.fromJSON(ex.Body)
	case web.TypeForm:
		form.form = true
		return form, form.fromForm(ex, l.page.site)
	}
	if len(ex.Body) == 0 && ex.Request.Header.Get("Content-Type") == "" {
		form.challenges = l.challenges()
		form.rejection = errors.New("no credentials")
		return form, nil
	}
	return nil, web.UnsupportedMedia(bodies.OrForm)
}

func (l *passwordLogin) challenges() []auth.Challenge {
	return []auth.Challenge{auth.BasicChallenge(l.realm)}
}

func (f *loginForm) fromJSON(body []byte) error {
	o, err := bodies.ParseObject(body)
	if err != nil {
		return err
	}
	username, err := o.Text("username")
	if err != nil {
		return err
	}
	f.username = auth.EnteredName(username)
	if f.password, err = o.Text("password"); err != nil {
		return err
	}
	if _, given := o["code"]; given {
		if f.code, err = o.Text("code"); err != nil {
			return err
		}
	}
	f.remember, err = o.Flag("remember")
	return err
}

func (f *loginForm) fromForm(ex *web.Exchange, site *web.Site) error {
	values, err := bodies.ParseForm(ex.Body, "username", "password")
	if err != nil {
		return web.BadRequest("The form must have the fields username and password.", err)
	}
	if len(values["code"]) > 1 {
		return web.BadRequest("The form can have one field code.", nil)
	}
	f.username, f.password = auth.EnteredName(values.Get("username")), values.Get("password")
	f.code = values.Get("code")
	f.then = ex.ReadReturn(values.Get)
	f.remember, err = readCheckbox(values["remember"])
	return err
}

// readCheckbox reports whether the values of a checkbox say that it is ticked. A browser sends
// none if it is not, and "on" for one without a value.
func readCheckbox(values []string) (bool, error) {
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return false, nil
	}
	ticked, err := strconv.ParseBool(values[0])
	if values[0] == "on" {
		ticked, err = true, nil
	}
	if err != nil || len(values) > 1 {
		return false, web.BadRequest(
			`The field "remember" must be true or false.`, errors.New("another value, or several"))
	}
	return ticked, nil
}

// narrow returns the mechanisms to issue: the wanted ones, or the mechanism that
// ?mechanism= names. Mechanisms that no route uses are left out.
func (l *passwordLogin) narrow(ex *web.Exchange, wanted []policy.Mechanism) ([]policy.Mechanism, error) {
	values, err := ex.Query()
	if err != nil {
		return nil, err
	}
	if named, ok := values["mechanism"]; ok {
		m := policy.Mechanism(named[0])
		if len(named) > 1 || (m != policy.Session && m != policy.Bearer) {
			return nil, web.BadRequest("The mechanism must be session or bearer.", nil)
		}
		wanted = []policy.Mechanism{m}
	}
	mechanisms := slices.DeleteFunc(slices.Clone(wanted), func(m policy.Mechanism) bool { return !l.used[m] })
	if len(mechanisms) == 0 {
		return nil, &web.Error{
			Status: http.StatusBadRequest, Detail: "Nothing here accepts what this login would give.",
			Cause: fmt.Errorf("no route accepts %v", wanted),
		}
	}
	return mechanisms, nil
}

// checkPassword checks the password. The work and the answer are the same whether or
// not there is such an account.
func (l *passwordLogin) checkPassword(ex *web.Exchange, form *loginForm) (*accounts.Account, error) {
	if form.rejection != nil {
		return nil, &auth.Rejection{Detail: auth.DetailWrongPassword, Reason: form.rejection.Error()}
	}
	return l.verifier.CheckFresh(ex.Request.Context(), l.accounts, form.username, form.password, ex.Peer.Client)
}

// answerFailure writes the audit log, and answers a form with the sign-in page.
func (l *passwordLogin) answerFailure(ex *web.Exchange, form *loginForm, err error) error {
	result := web.LoginResult(err)
	if result == "" {
		return err
	}
	attrs := []slog.Attr{slog.String("result", result)}
	if account, known := l.accounts.Lookup(form.username); known { // else it may be a password in the wrong field
		attrs = append(attrs, subjectOf(account))
	}
	ex.Audit("login", attrs...)
	if !form.form || web.Negotiate(ex.Request) != web.TypeHTML {
		return web.Challenge(err, form.challenges...)
	}
	page := pages.SignIn{Username: form.username, Remembered: form.remember, Notice: pages.NoticeWrong}
	status := http.StatusUnauthorized
	if throttled, ok := errors.AsType[*auth.ThrottledError](err); ok {
		page.Notice, page.Wait, status = pages.NoticeThrottled, throttled.RetryAfter, http.StatusTooManyRequests
		web.SetRetryAfter(ex.Header(), throttled.RetryAfter)
	}
	ex.Failed(err, status)
	l.page.write(ex, status, form.then, page)
	return nil
}
