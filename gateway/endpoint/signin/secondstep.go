package signin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/bodies"
	"authgate/gateway/identity/auth"
	"authgate/gateway/login/journey"
	"authgate/gateway/pages"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/gateway/people/proofs"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

const (
	// stepField is the field of a form that names a sign-in whose password was right.
	stepField = "step"

	detailCode    = "The code is wrong, too old or used."
	detailStopped = "Codes of the app do not count any more, because too many were wrong. " +
		"Use a passkey or a recovery code, or ask the administrator."
	detailFactor = "The password is right. This account needs a second factor too."
)

// secondStep asks users of accounts with factors for more than the password. A browser gets
// a page for that, POST /signin/code, which knows the account and not the password.
type secondStep struct {
	site     *web.Site
	proofs   *proofs.Proofs
	editor   endpoint.Editor
	verifier *auth.Verifier
	entrance *entrance
	narrow   func(*web.Exchange, []policy.Mechanism) ([]policy.Mechanism, error) // of passwordLogin
	metrics  *web.Metrics
}

// needed is the error of a right password that is not enough.
func needed(account *accounts.Account, challenges []auth.Challenge) error {
	return web.Challenge(&web.Error{
		Status: http.StatusUnauthorized, Detail: detailFactor, Factors: account.Factors.Kinds(),
		Cause: errors.New("the password is right, and the account has a factor"),
	}, challenges...)
}

// ask asks a user who has given the right password for a code or a passkey.
func (s *secondStep) ask(ex *web.Exchange, account *accounts.Account, form *loginForm) error {
	ex.Audit("login", slog.String("result", "incomplete"), subjectOf(account))
	refusal := needed(account, form.challenges)
	if !form.form || web.Negotiate(ex.Request) != web.TypeHTML {
		return refusal
	}
	secret, err := s.beginStep(ex, account)
	if err != nil {
		return err
	}
	return s.write(ex, http.StatusOK, account, pages.Code{Step: secret, Remembered: form.remember}, form.then)
}

// beginStep begins a second step in the browser of a request.
func (s *secondStep) beginStep(ex *web.Exchange, account *accounts.Account) (secret string, err error) {
	browser, known := journey.BrowserSecret(ex.Credentials.Browser)
	if secret, err = s.proofs.BeginStep(&ex.Store, account, browser); err == nil && !known {
		s.site.Cookies.Set(ex, s.site.Cookies.Names.Browser, browser, factors.ChallengeLife)
	}
	return secret, err
}

// checkCode checks a code of an account whose user has given the right password, and returns the
// methods of the proof. A wrong one counts as a failed login.
func (s *secondStep) checkCode(ex *web.Exchange, account *accounts.Account, code string) (methods []string, err error) {
	// A client that leaves must not spend a code by halves.
	ctx, end := context.WithTimeout(ex.Store.Detached(), endpoint.ChangeTime)
	defer end()
	err = s.verifier.CheckCode(ex.Request.Context(), account, ex.Peer.Client, func() (err error) {
		methods, err = s.proofs.Code(ctx, account, code)
		switch {
		case errors.Is(err, proofs.ErrStopped):
			return &auth.Rejection{Detail: detailStopped, Reason: err.Error()}
		case errors.Is(err, factors.ErrWrongCode):
			return &auth.Rejection{Detail: detailCode, Reason: err.Error()}
		}
		return err
	})
	if err == nil && factors.IsRecoveryCode(code) {
		// The code is gone from the file of accounts. Reread it now, so that the page of the account
		// shows one code less. After an error, the reload that follows each change of a file does it.
		_ = s.editor.Reload()
	}
	return methods, err
}

// recordRefusal counts a code that was not accepted, and writes it to the audit log. It reports
// whether the user may try again.
func (s *secondStep) recordRefusal(
	ex *web.Exchange, mechanism policy.Mechanism, account *accounts.Account, err error,
) bool {
	s.metrics.Login(mechanism, err)
	result := web.LoginResult(err)
	if result != "" {
		ex.Audit("login", slog.String("result", result), subjectOf(account), slog.String("reason", reasonOf(err)))
	}
	return result != ""
}

// reasonOf returns why a code was not accepted, for the audit log.
func reasonOf(err error) string {
	if rejection, ok := errors.AsType[*auth.Rejection](err); ok && rejection.Detail == detailStopped {
		return "second factor, and codes of the app have stopped to count"
	}
	return "second factor"
}

// serveCode is POST /signin/code.
func (s *secondStep) serveCode(ex *web.Exchange) error {
	values, err := bodies.ReadForm(ex, "The form must have the fields step and code.", stepField, "code")
	if err != nil {
		return err
	}
	a := &arrival{then: ex.ReadReturn(values.Get), page: web.Negotiate(ex.Request) == web.TypeHTML}
	if a.remember, err = readCheckbox(values["remember"]); err != nil {
		return err
	}
	if a.mechanisms, err = s.narrow(ex, []policy.Mechanism{policy.Session}); err != nil {
		return err
	}
	// A user who comes too late begins again, with the same place to go on to.
	ex.SignIn = &web.SignInLink{Page: s.site.WithReturn(s.site.Own("signin"), a.then), Always: true}
	secret := values.Get(stepField)
	if a.account, err = s.stepOf(ex, values[stepField]); err != nil {
		return err
	}
	if a.methods, err = s.checkCode(ex, a.account, values.Get("code")); err != nil {
		if !s.recordRefusal(ex, a.mechanisms[0], a.account, err) || !a.page {
			return err
		}
		page := pages.Code{Step: secret, Remembered: a.remember, Notice: pages.NoticeCode}
		return s.writeAgain(ex, a.account, page, a.then, err)
	}
	if err := s.proofs.EndStep(&ex.Store, secret); err != nil {
		return err
	}
	return s.entrance.admit(ex, a)
}

// writeAgain writes the page once more, to a user whose code or passkey was not accepted.
func (s *secondStep) writeAgain(
	ex *web.Exchange, account *accounts.Account, page pages.Code, then places.Return, err error,
) error {
	status := http.StatusUnauthorized
	if throttled, ok := errors.AsType[*auth.ThrottledError](err); ok {
		page.Notice, page.Wait, status = pages.NoticeThrottled, throttled.RetryAfter, http.StatusTooManyRequests
		web.SetRetryAfter(ex.Header(), throttled.RetryAfter)
	}
	ex.Failed(err, status)
	return s.write(ex, status, account, page, then)
}

// write writes the page of the second step.
func (s *secondStep) write(
	ex *web.Exchange, status int, account *accounts.Account, page pages.Code, then places.Return,
) error {
	stopped, err := s.proofs.Stopped(&ex.Store, account)
	if err != nil {
		return err
	}
	page.Action, page.Form = s.withMechanism(ex, s.site.Own("signin/code")), formOf(s.site, then)
	page.Username, page.TOTP = account.Username, account.Factors.TOTP != nil && !stopped
	if stopped && (page.Notice == 0 || page.Notice == pages.NoticeCode) {
		page.Notice = pages.NoticeStopped
	}
	page.Recovery = len(account.Factors.Recovery) > 0
	page.BackURL = s.site.WithReturn(s.site.Own("signin"), then)
	if s.proofs.Site != nil && len(account.Factors.Passkeys) > 0 {
		page.Passkey = &pages.PasskeyForm{
			Action:  s.withMechanism(ex, s.site.Own("signin/passkey")),
			Options: places.WithParameter(s.site.Own("signin/passkey/options"), stepField, page.Step),
		}
	}
	ex.Page(status, func(p *pages.Pages, w io.Writer) error { return p.Code(w, page) })
	return nil
}

// withMechanism returns an own endpoint with the mechanism that the query asks for.
func (s *secondStep) withMechanism(ex *web.Exchange, place string) string {
	if named := ex.QueryValue("mechanism"); named != "" {
		return places.WithParameter(place, "mechanism", named)
	}
	return place
}

// formOf returns the hidden fields of the forms of a sign-in.
func formOf(site *web.Site, r places.Return) pages.Form {
	f := pages.Form{ReturnTo: site.Place(r), Binding: r.Binding, Elsewhere: r.Elsewhere}
	f.Factors, f.MaxAge = places.DemandFields(r.Demand)
	return f
}

// stepOf returns the account whose password the user of a browser has given, by the secret
// that a form or a query names.
func (s *secondStep) stepOf(ex *web.Exchange, secrets []string) (account *accounts.Account, err error) {
	if err = fmt.Errorf("%w: %d are named", proofs.ErrNoStep, len(secrets)); len(secrets) == 1 {
		account, err = s.proofs.Step(&ex.Store, secrets[0], ex.Credentials.Browser)
	}
	if errors.Is(err, proofs.ErrNoStep) {
		ex.Audit("login", slog.String("result", web.LoginResult(err)), slog.String("reason", err.Error()))
	}
	return account, err
}
