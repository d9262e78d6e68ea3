package account

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"

	"authgate/gateway/endpoint"
	"authgate/gateway/pages"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/gateway/people/proofs"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// offerFactors adds to the page the user's factors beside the password, if they can be changed.
func (p *page) offerFactors(ex *web.Exchange, id *policy.Identity, view *pages.Manage) {
	owner, ok := p.changeable(id)
	if !ok {
		return
	}
	proved := p.options.Proofs
	passkeys, totp := proved.Site != nil, proved.Issuer != ""
	view.Factors = &pages.OwnFactors{}
	showFactors(view.Factors, owner.Factors)
	from := ex.ReadReturn(ex.QueryValue)
	d := demandOf(owner)
	if !d.Met(&id.Proof, p.options.Now()) {
		view.Factors.SignInAgainURL = p.options.SignInAgain(factorsPage, d, from)
	}
	p.offerChanges(view.Factors, passkeys, totp, from)
	switch {
	case p.options.Site.Place(from) == "":
	case from.Demand.Factors > 1 && !owner.Factors.Any():
		view.Factors.Needed = p.options.Site.SignInHost(from)
	case from.Demand.Met(&id.Proof, p.options.Now()):
		view.Factors.ContinueURL = p.onward(from)
	}
}

// showFactors shows which factors there are.
func showFactors(view *pages.OwnFactors, have factors.Set) {
	view.TOTP, view.RecoveryCodes, view.Passkeys = have.TOTP != nil, len(have.Recovery), nil
	for _, key := range have.Passkeys {
		view.Passkeys = append(view.Passkeys, pages.OwnPasskey{ID: key.ID, Name: key.Name})
	}
}

// offerChanges adds the forms of factors. They keep where the user wants to go on.
func (p *page) offerChanges(view *pages.OwnFactors, passkeys, totp bool, from places.Return) {
	action := func(name string) string { return p.options.Site.WithReturn(p.options.Site.Own(name), from) }
	view.RecoveryAction = action("account/recovery-codes")
	if passkeys {
		view.PasskeyOptions, view.PasskeyAction = action("account/passkeys/options"), action("account/passkeys")
		view.PasskeyRemove = action("account/passkeys/remove")
	}
	if totp {
		view.TOTPAction, view.TOTPConfirm = action("account/totp"), action("account/totp/confirm")
		view.TOTPRemove = action("account/totp/remove")
	}
}

// onward returns where a user goes on who was led here to add a factor. At another host, the
// sign-in page gives them a session.
func (p *page) onward(from places.Return) string {
	if from.Host == "" {
		return from.Path
	}
	return p.options.Site.WithReturn(p.options.Site.Own("signin"), from)
}

// demandOf returns the demand on the sign-in of a user who changes their factors: the password and
// any factor that the account has, not long ago. Otherwise a person who finds an open session, or
// knows the password, could take the account over.
func demandOf(owner *accounts.Account) policy.Demand {
	d := policy.Demand{MaxAge: endpoint.FreshSignIn}
	if owner.Factors.Any() {
		d.Factors = 2
	}
	return d
}

// setUp answers a form with the page that shows a new TOTP secret, and asks for its first code.
func (p *page) setUp(ex *web.Exchange, secret, uri string) error {
	code, err := factors.QRCode(uri)
	if err != nil {
		return fmt.Errorf("drawing a QR code: %w", err)
	}
	return p.write(ex, ex.Identity, http.StatusCreated, pages.ManageFactors, func(view *pages.Manage) {
		if view.Factors != nil {
			view.Factors.Setup = &pages.TOTPSetup{Secret: secret, QR: template.HTML(code)}
		}
	})
}

// added answers a form that has changed the factors. New recovery codes are shown, this once;
// without codes, the browser comes back to the page.
func (p *page) added(ex *web.Exchange, status int, now factors.Set, codes []string) error {
	if len(codes) == 0 {
		p.done(ex, donePasskey)
		return nil
	}
	return p.write(ex, ex.Identity, status, pages.ManageFactors, func(view *pages.Manage) {
		if view.Factors == nil {
			return
		}
		showFactors(view.Factors, now)
		view.Factors.NewCodes, view.Factors.Needed = codes, ""
		if from := ex.ReadReturn(ex.QueryValue); p.options.Site.Place(from) != "" {
			view.Factors.ContinueURL = p.onward(from)
		}
	})
}

// refuseFactor answers a form of the page with the page, which says why no factor was added.
// Other requests get err.
func (p *page) refuseFactor(ex *web.Exchange, err error) error {
	mistake, ok := errors.AsType[*web.Error](err)
	if !ok || !endpoint.ByPage(ex) {
		return err
	}
	wrong := errors.Is(err, factors.ErrWrongCode)
	notice := pages.ManagePasskeyRefused
	switch {
	case wrong:
		notice = pages.ManageWrongCode
	case errors.Is(err, proofs.ErrNoPending):
		notice = pages.ManageNoPending
	case errors.Is(err, factors.ErrMalformed), errors.Is(err, factors.ErrRefused):
	default:
		return err
	}
	failed := p.write(ex, ex.Identity, mistake.Status, pages.ManageFactors, func(view *pages.Manage) {
		if view.Notice = notice; wrong && view.Factors != nil {
			view.Factors.Setup = &pages.TOTPSetup{} // the app has the secret, and it is not told again
		}
	})
	if failed != nil {
		return failed
	}
	ex.Failed(err, mistake.Status)
	return nil
}
