package signin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"authgate/gateway/endpoint/bodies"
	"authgate/gateway/identity/auth"
	"authgate/gateway/pages"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/gateway/people/proofs"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// passkeySignIn is the endpoints of passkeys: POST /signin/passkey/options and POST
// /signin/passkey. A passkey signs in alone, or is the second factor after a password.
type passkeySignIn struct {
	proofs   *proofs.Proofs
	password *passwordLogin
	second   *secondStep
	starts   *auth.Starts
}

// enabled returns why there are no passkeys.
func (p *passkeySignIn) enabled() error {
	if p.proofs.Site == nil {
		return &web.Error{Status: http.StatusNotFound, Detail: "There are no passkeys here.",
			Cause: errors.New("factors.passkeys is off, or public_url has an address in the place of a name")}
	}
	return nil
}

// options answers with the options of a sign-in: for any passkey, or after a password for
// those of the account.
func (p *passkeySignIn) options(ex *web.Exchange) error {
	account, err := p.claimed(ex)
	if err != nil {
		return err
	}
	var options json.RawMessage
	if account == nil {
		if err := p.starts.Begin(ex.Peer.Client); err != nil {
			return err
		}
		options, err = p.proofs.BeginSignIn(&ex.Store)
	} else {
		options, err = p.proofs.BeginSecondFactor(&ex.Store, account)
	}
	if errors.Is(err, proofs.ErrNoFactor) {
		return &web.Error{
			Status: http.StatusUnauthorized, Detail: "The password is right. This account has no passkey.",
			Factors: account.Factors.Kinds(), Cause: err,
		}
	}
	if err != nil {
		return err
	}
	ex.JSON(web.TypeJSON, http.StatusOK, options)
	return nil
}

// claimed returns the account whose password the client has given, with this request or
// before; nil if it claims none.
func (p *passkeySignIn) claimed(ex *web.Exchange) (*accounts.Account, error) {
	query, err := ex.Query()
	if err != nil {
		return nil, err
	}
	if steps, ok := query[stepField]; ok {
		return p.second.stepOf(ex, steps)
	}
	if len(ex.Body) == 0 {
		return nil, nil
	}
	o, err := bodies.ReadObject(ex, web.TypeJSON)
	if err != nil {
		return nil, err
	}
	_, name := o["username"]
	if _, password := o["password"]; !name && !password {
		return nil, nil
	}
	form := &loginForm{}
	if err := form.fromJSON(ex.Body); err != nil {
		return nil, err
	}
	account, err := p.password.checkPassword(ex, form)
	if err != nil {
		p.password.metrics.Login(policy.Session, err)
		return nil, p.password.answerFailure(ex, form, err)
	}
	return account, nil
}

// serve is POST /signin/passkey: the answer of an authenticator. A form of a page has it in
// the field credential.
func (p *passkeySignIn) serve(ex *web.Exchange) error {
	a, answer, steps, err := p.readAnswer(ex)
	if err != nil {
		return err
	}
	if a.mechanisms, err = p.password.narrow(ex, []policy.Mechanism{policy.Session}); err != nil {
		return err
	}
	var step *accounts.Account
	if steps != nil {
		if step, err = p.second.stepOf(ex, steps); err != nil {
			return err
		}
	}
	signedIn, err := p.checkAnswer(ex, answer, step)
	if err != nil {
		if !p.recordRefusal(ex, a.mechanisms[0], err) || !a.page {
			return err
		}
		return p.writeAgain(ex, a, step, steps, err)
	}
	if step != nil {
		if err := p.proofs.EndStep(&ex.Store, steps[0]); err != nil {
			return err
		}
	}
	a.account, a.methods = signedIn.Account, signedIn.AMR()
	return p.password.entrance.admit(ex, a)
}

// readAnswer reads the answer, where its user goes on, and which second step it belongs to.
func (p *passkeySignIn) readAnswer(ex *web.Exchange) (a *arrival, answer []byte, steps []string, err error) {
	site := p.second.site
	switch ex.MediaType() {
	case web.TypeJSON:
		query, err := ex.Query()
		if err != nil {
			return nil, nil, nil, err
		}
		remember, err := readCheckbox(query["remember"])
		return &arrival{remember: remember}, ex.Body, nil, err
	case web.TypeForm:
		values, err := bodies.ReadForm(ex, "The form must have the field credential.", "credential")
		if err != nil {
			return nil, nil, nil, err
		}
		a := &arrival{then: ex.ReadReturn(values.Get), page: web.Negotiate(ex.Request) == web.TypeHTML}
		ex.SignIn = &web.SignInLink{Page: site.WithReturn(site.Own("signin"), a.then), Always: true}
		a.remember, err = readCheckbox(values["remember"])
		return a, []byte(values.Get("credential")), values[stepField], err
	}
	return nil, nil, nil, web.UnsupportedMedia(bodies.OrForm)
}

// checkAnswer checks an answer. step is the account of the second step that it belongs to, nil if
// there is none.
func (p *passkeySignIn) checkAnswer(
	ex *web.Exchange, answer []byte, step *accounts.Account,
) (*proofs.SignedIn, error) {
	// A client that leaves must not use up a challenge by halves.
	ctx, end := ex.Store.Recording()
	defer end()
	signedIn, err := p.signIn(ctx, answer)
	if err == nil && step != nil && signedIn.Account != step {
		err = refusedPasskey(errors.New("the passkey belongs to another account than the password"))
	}
	return signedIn, err
}

func (p *passkeySignIn) signIn(ctx context.Context, answer []byte) (*proofs.SignedIn, error) {
	signedIn, err := p.proofs.SignIn(ctx, answer)
	switch {
	case errors.Is(err, factors.ErrMalformed):
		return nil, web.BadRequest("The body is not the answer of an authenticator.", err)
	case errors.Is(err, factors.ErrRefused):
		return nil, refusedPasskey(err)
	}
	return signedIn, err
}

// refusedPasskey is the error of an answer that proves nothing.
func refusedPasskey(cause error) error {
	return &auth.Rejection{Detail: "The passkey was not accepted. Please try again.", Reason: cause.Error()}
}

// recordRefusal counts an answer that was refused, and writes it to the audit log. It reports
// whether the user may try again.
func (p *passkeySignIn) recordRefusal(ex *web.Exchange, mechanism policy.Mechanism, err error) bool {
	p.password.metrics.Login(mechanism, err)
	result := web.LoginResult(err)
	if result != "" {
		ex.Audit("login", slog.String("result", result), slog.String("reason", err.Error()))
	}
	return result != ""
}

// writeAgain writes the page once more from which a refused answer came.
func (p *passkeySignIn) writeAgain(
	ex *web.Exchange, a *arrival, step *accounts.Account, steps []string, err error,
) error {
	if step != nil {
		page := pages.Code{Step: steps[0], Remembered: a.remember, Notice: pages.NoticePasskey}
		return p.second.writeAgain(ex, step, page, a.then, err)
	}
	ex.Failed(err, http.StatusUnauthorized)
	page := pages.SignIn{Remembered: a.remember, Notice: pages.NoticePasskey}
	p.password.page.write(ex, http.StatusUnauthorized, a.then, page)
	return nil
}
