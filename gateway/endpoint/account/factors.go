package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/bodies"
	"authgate/gateway/endpoint/signout"
	"authgate/gateway/identity/auth"
	"authgate/gateway/login"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/gateway/people/proofs"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// ownFactors is /account/factors, and /account/passkeys, /account/totp and
// /account/recovery-codes: the user's factors beside the password.
type ownFactors struct {
	page     *page
	proofs   *proofs.Proofs
	logout   *signout.Logout
	sessions auth.Chain
}

// factorRow returns a row for a change of factors, without its function.
func (f *ownFactors) factorRow(
	name string, offered bool, do func(*web.Exchange, *accounts.Account) error,
) endpoint.Row {
	return endpoint.Row{
		Name: name, Method: http.MethodPost, Home: true, Sessions: true, May: f.may, Demand: f.demand,
		Back:    factorsPage,
		Enabled: func() error { return f.enabled(offered) },
		Do: func(ex *web.Exchange) error {
			owner, ok := f.page.owner(ex.Identity)
			if !ok { // a reload has removed it since
				return auth.ErrRejected
			}
			return do(ex, owner)
		},
	}
}

// rows returns the endpoints of factors.
func (f *ownFactors) rows() []endpoint.Row {
	passkeys, totp := f.proofs.Site != nil, f.proofs.Issuer != ""
	return []endpoint.Row{
		{Name: "account/factors", Method: http.MethodGet, Home: true, Do: f.list},
		f.factorRow("account/passkeys/options", passkeys, f.passkeyOptions),
		f.factorRow("account/passkeys", passkeys, f.addPasskey),
		f.factorRow("account/passkeys/remove", passkeys, f.removePasskey),
		f.factorRow("account/totp", totp, f.beginTOTP),
		f.factorRow("account/totp/confirm", totp, f.confirmTOTP),
		f.factorRow("account/totp/remove", totp, f.removeTOTP),
		f.factorRow("account/recovery-codes", passkeys || totp, f.recoveryCodes),
	}
}

// enabled returns why no user can have a factor.
func (f *ownFactors) enabled(offered bool) error {
	if !offered {
		return fixedFactors(proofs.ErrOff)
	}
	return f.page.writable(fixedFactors)
}

// may returns why the user cannot have factors here.
func (f *ownFactors) may(id *policy.Identity) error {
	return f.page.mayChange(id, "Only users with a local account have second factors here.", fixedFactors)
}

// demand returns the demand on the sign-in of the user.
func (f *ownFactors) demand(id *policy.Identity) policy.Demand {
	owner, ok := f.page.owner(id)
	if !ok { // a reload has removed it since
		return policy.Demand{Factors: 2, MaxAge: endpoint.FreshSignIn}
	}
	return demandOf(owner)
}

func fixedFactors(cause error) error {
	return &web.Error{Status: http.StatusNotFound, Detail: "You cannot have this second factor here.", Cause: cause}
}

// passkeyInfo describes a passkey to its user.
type passkeyInfo struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// factorsInfo describes factors to their user.
type factorsInfo struct {
	Passkeys      []passkeyInfo `json:"passkeys"`
	TOTP          bool          `json:"totp"`
	RecoveryCodes int           `json:"recovery_codes"` // unused ones
}

// list is GET /account/factors.
func (f *ownFactors) list(ex *web.Exchange) error {
	id, err := f.page.options.Reader(ex)
	if err != nil {
		return err
	}
	info := factorsInfo{Passkeys: []passkeyInfo{}}
	if owner, ok := f.page.owner(id); ok {
		for _, p := range owner.Factors.Passkeys {
			info.Passkeys = append(info.Passkeys, passkeyInfo{p.ID, p.Name})
		}
		info.TOTP, info.RecoveryCodes = owner.Factors.TOTP != nil, len(owner.Factors.Recovery)
	}
	ex.JSON(web.TypeJSON, http.StatusOK, info)
	return nil
}

// changeFactors calls do with an edit, by which do changes the factors of the user. It returns the
// changed factors.
func (f *ownFactors) changeFactors(
	ex *web.Exchange, owner *accounts.Account, do func(ctx context.Context, edit proofs.Edit) error,
) (now factors.Set, err error) {
	// A client that leaves must not leave half a change behind.
	ctx, cancel := context.WithTimeout(ex.Store.Detached(), endpoint.ChangeTime)
	defer cancel()
	err = do(ctx, func(ctx context.Context, change func(*accounts.Account) error) error {
		var used []string // to add them
		after, err := f.page.changeAccount(ctx, ownChange{
			identity: ex.Identity, verified: owner,
			change: func(a *accounts.Account) error {
				before := a.Factors
				err := change(a)
				now, used = a.Factors, a.Factors.Added(before)
				return err
			},
			isSame: func(running *accounts.Account) bool { return running.LoginVersion() == owner.LoginVersion() },
			checkLogin: func() error {
				_, err := f.sessions.Alive(ctx, &ex.Credentials)
				return err
			},
			continueLogin: func(o *login.Overview, changed *accounts.Account) (*login.Login, error) {
				return o.Keep(ctx, ex.Identity, changed, used...)
			},
		})
		f.logout.Ended(ex, after.ended)
		return err
	})
	return now, err
}

// refused returns the answer to an error of a change, and another error as it is. The page names
// the mistake.
func refused(err error) error {
	answer := func(status int, detail string) error { return &web.Error{Status: status, Detail: detail, Cause: err} }
	switch {
	case errors.Is(err, errNotHere):
		return fixedFactors(err)
	case errors.Is(err, errChanged):
		return answer(http.StatusConflict, "Your account was changed at the same moment. Try again.")
	case errors.Is(err, proofs.ErrNoPending):
		return web.Refused(web.CredentialTOTP, answer(http.StatusConflict, "No secret waits for a code. Begin again."))
	case errors.Is(err, factors.ErrWrongCode):
		return web.Refused(web.CredentialTOTP, answer(http.StatusForbidden, "The code is wrong."))
	case errors.Is(err, factors.ErrMalformed):
		return answer(http.StatusBadRequest, "The answer of the browser is not understood.")
	case errors.Is(err, factors.ErrRefused):
		return answer(http.StatusForbidden, "The passkey was not accepted.")
	}
	return err
}

// passkeyOptions is POST /account/passkeys/options.
func (f *ownFactors) passkeyOptions(ex *web.Exchange, owner *accounts.Account) error {
	if err := nothingElse(ex); err != nil {
		return err
	}
	options, err := f.proofs.BeginPasskey(&ex.Store, owner)
	if errors.Is(err, factors.ErrRefused) {
		return &web.Error{
			Status: http.StatusConflict, Cause: err,
			Detail: fmt.Sprintf("You have %d passkeys, which is the limit. Remove one that you do not need.",
				factors.MaxPasskeys),
		}
	}
	if err != nil {
		return err
	}
	ex.JSON(web.TypeJSON, http.StatusOK, options)
	return nil
}

// addPasskey is POST /account/passkeys. With the first factor come recovery codes.
func (f *ownFactors) addPasskey(ex *web.Exchange, owner *accounts.Account) error {
	order, err := readPasskey(ex)
	if err != nil {
		return err
	}
	var added *factors.Passkey
	var codes []string
	now, err := f.changeFactors(ex, owner, func(ctx context.Context, edit proofs.Edit) (err error) {
		added, codes, err = f.proofs.AddPasskey(ctx, owner, order.name, order.credential, edit)
		return err
	})
	if err != nil {
		return f.page.refuseFactor(ex, refused(err))
	}
	ex.Audit("factor_added", slog.String("factor", factors.KindPasskey))
	if endpoint.ByPage(ex) {
		return f.page.added(ex, http.StatusCreated, now, codes)
	}
	ex.JSON(web.TypeJSON, http.StatusCreated, struct {
		passkeyInfo
		Codes []string `json:"recovery_codes,omitempty"` // told once
	}{passkeyInfo{added.ID, added.Name}, codes})
	return nil
}

// removePasskey is POST /account/passkeys/remove.
func (f *ownFactors) removePasskey(ex *web.Exchange, owner *accounts.Account) error {
	id, err := readText(ex, "id")
	if err != nil {
		return err
	}
	_, err = f.changeFactors(ex, owner, func(ctx context.Context, edit proofs.Edit) error {
		return f.proofs.RemovePasskey(ctx, id, edit)
	})
	return f.removed(ex, factors.KindPasskey, err)
}

// removeTOTP is POST /account/totp/remove.
func (f *ownFactors) removeTOTP(ex *web.Exchange, owner *accounts.Account) error {
	if err := nothingElse(ex); err != nil {
		return err
	}
	_, err := f.changeFactors(ex, owner, f.proofs.RemoveTOTP)
	return f.removed(ex, factors.KindTOTP, err)
}

// removed answers a request to remove a factor of a kind.
func (f *ownFactors) removed(ex *web.Exchange, kind string, err error) error {
	if errors.Is(err, proofs.ErrNoFactor) {
		return &web.Error{Status: http.StatusNotFound, Detail: "You have no such second factor.", Cause: err}
	}
	if err != nil {
		return refused(err)
	}
	ex.Audit("factor_removed", slog.String("factor", kind))
	if ex.MediaType() == web.TypeForm {
		f.page.done(ex, doneFactor)
		return nil
	}
	ex.JSON(web.TypeJSON, http.StatusOK, map[string]string{"message": "Removed."})
	return nil
}

// beginTOTP is POST /account/totp. The answer tells the secret, this once.
func (f *ownFactors) beginTOTP(ex *web.Exchange, owner *accounts.Account) error {
	if err := nothingElse(ex); err != nil {
		return err
	}
	secret, uri, err := f.proofs.BeginTOTP(&ex.Store, owner)
	if err != nil {
		return refused(err)
	}
	ex.Audit("factor_begun", slog.String("factor", factors.KindTOTP))
	if endpoint.ByPage(ex) {
		return f.page.setUp(ex, secret.Reveal(), uri)
	}
	ex.JSON(web.TypeJSON, http.StatusCreated, map[string]string{"secret": secret.Reveal(), "uri": uri})
	return nil
}

// confirmTOTP is POST /account/totp/confirm. New recovery codes come with it.
func (f *ownFactors) confirmTOTP(ex *web.Exchange, owner *accounts.Account) error {
	code, err := readText(ex, "code")
	if err != nil {
		return err
	}
	var codes []string
	now, err := f.changeFactors(ex, owner, func(ctx context.Context, edit proofs.Edit) (err error) {
		codes, err = f.proofs.ConfirmTOTP(ctx, owner, code, edit)
		return err
	})
	if err != nil {
		return f.page.refuseFactor(ex, refused(err))
	}
	ex.Audit("factor_added", slog.String("factor", factors.KindTOTP))
	return f.tell(ex, now, codes)
}

// recoveryCodes is POST /account/recovery-codes.
func (f *ownFactors) recoveryCodes(ex *web.Exchange, owner *accounts.Account) error {
	if err := nothingElse(ex); err != nil {
		return err
	}
	var codes []string
	now, err := f.changeFactors(ex, owner, func(ctx context.Context, edit proofs.Edit) (err error) {
		codes, err = f.proofs.RecoveryCodes(ctx, edit)
		return err
	})
	if errors.Is(err, proofs.ErrNoFactor) {
		return &web.Error{
			Status: http.StatusConflict, Cause: err,
			Detail: "Recovery codes stand for a second factor. Add one first.",
		}
	}
	if err != nil {
		return refused(err)
	}
	ex.Audit("recovery_codes_replaced")
	return f.tell(ex, now, codes)
}

// tell answers with new recovery codes, this once.
func (f *ownFactors) tell(ex *web.Exchange, now factors.Set, codes []string) error {
	if endpoint.ByPage(ex) {
		return f.page.added(ex, http.StatusOK, now, codes)
	}
	ex.JSON(web.TypeJSON, http.StatusOK, map[string][]string{"recovery_codes": codes})
	return nil
}

// nothingElse checks the body of a request that needs none: it may be empty, an object or a
// form.
func nothingElse(ex *web.Exchange) error {
	if ex.MediaType() == web.TypeForm || len(ex.Body) == 0 {
		return nil
	}
	_, err := bodies.ReadObject(ex, bodies.OrForm)
	return err
}

// passkeyOrder is a new passkey as a user posts it.
type passkeyOrder struct {
	name       string
	credential []byte
}

// readPasskey reads a JSON object, or the form that the script of the page has filled.
func readPasskey(ex *web.Exchange) (*passkeyOrder, error) {
	order := &passkeyOrder{}
	if ex.MediaType() == web.TypeForm {
		values, err := bodies.ReadForm(ex, `The form must have the fields "name" and "credential".`,
			"name", "credential")
		if err != nil {
			return nil, err
		}
		order.name, order.credential = values.Get("name"), []byte(values.Get("credential"))
	} else {
		o, err := bodies.ReadObject(ex, bodies.OrForm)
		if err != nil {
			return nil, err
		}
		if order.name, err = o.Text("name"); err != nil {
			return nil, err
		}
		if order.credential = o["credential"]; !isObject(order.credential) {
			return nil, web.BadRequest(`The body must have the object "credential".`, nil)
		}
	}
	if err := factors.CheckName(order.name); err != nil {
		detail := fmt.Sprintf("The name must have 1 to %d printable characters.", factors.MaxName)
		return nil, web.BadRequest(detail, err)
	}
	return order, nil
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }
