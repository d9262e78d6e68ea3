package account

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/bodies"
	"authgate/gateway/endpoint/signin"
	"authgate/gateway/endpoint/signout"
	"authgate/gateway/identity/auth"
	"authgate/gateway/login"
	"authgate/gateway/pages"
	"authgate/gateway/people/accounts"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// password is POST /account/password.
type password struct {
	page     *page
	accounts *accounts.Set
	verifier *auth.Verifier
	logout   *signout.Logout
	issuer   *signin.Issuer
}

// passwordOrder has the fields that a user posts.
type passwordOrder struct {
	current, next string
	again         []string // repetitions of next
}

// enabled returns why no password can be changed.
func (p *password) enabled() error { return p.page.writable(fixedPassword) }

// may returns why the user cannot change a password.
func (p *password) may(id *policy.Identity) error {
	return p.page.mayChange(id, "Only users with a local account have a password here.", fixedPassword)
}

func (p *password) serve(ex *web.Exchange) error {
	id := ex.Identity
	owner, ok := p.page.owner(id)
	if !ok { // a reload has removed it since
		return auth.ErrRejected
	}
	form := ex.MediaType() == web.TypeForm
	values := p.issuer.Renewal(ex, form)
	order, err := readPasswordOrder(ex)
	if err == nil {
		err = p.changePassword(ex, id, owner, order, values)
	}
	if err != nil {
		status, notice := passwordNotice(err)
		return p.page.refuse(ex, pages.ManagePassword, status, notice, err)
	}
	if form {
		p.page.done(ex, donePassword)
		return nil
	}
	values.JSON("Changed. Your other logins and your API tokens have ended.")
	return nil
}

// changePassword checks the current password, as a sign-in does, and sets the next one.
func (p *password) changePassword(
	ex *web.Exchange, id *policy.Identity, owner *accounts.Account, order passwordOrder, values *signin.NewValues,
) error {
	verified, err := p.verifier.CheckFresh(
		ex.Request.Context(), p.accounts, owner.Username, order.current, ex.Peer.Client)
	if result := web.LoginResult(err); err != nil && result != "" {
		ex.Audit("password_changed", slog.String("result", result))
	}
	if errors.Is(err, auth.ErrRejected) {
		return wrongPassword(err)
	}
	if err != nil {
		return err
	}
	hash, err := p.verifier.NewHash(ex.Request.Context(), order.next)
	if err != nil {
		return err
	}
	// A client that leaves must not leave half a change behind.
	ctx, cancel := context.WithTimeout(ex.Store.Detached(), endpoint.ChangeTime)
	defer cancel()
	after, err := p.page.changeAccount(ctx, ownChange{
		identity: id, verified: verified, change: accounts.SetPasswordHash(verified, hash),
		isSame: func(running *accounts.Account) bool { return running.Version() == verified.Version() },
		continueLogin: func(o *login.Overview, owner *accounts.Account) (*login.Login, error) {
			return o.Renew(ctx, id, owner, values.Give)
		},
	})
	p.logout.Ended(ex, after.ended)
	switch {
	case errors.Is(err, accounts.ErrOtherHash):
		return wrongPassword(errChanged)
	case errors.Is(err, errChanged):
		return wrongPassword(err)
	case errors.Is(err, errNotHere):
		return fixedPassword(err)
	case err != nil:
		return fmt.Errorf("changing a password: %w", err)
	}
	ex.Audit("password_changed")
	return values.Deliver(after.renewed, verified)
}

// errWrong is the cause of a *web.Error.
var errWrong = errors.New("the current password is wrong")

// passwordNotice returns the status of a mistake, and the notice of the page.
func passwordNotice(err error) (int, pages.ManageNotice) {
	if errors.Is(err, errWrong) {
		return http.StatusForbidden, pages.ManageWrong
	}
	return http.StatusBadRequest, signin.PasswordNotice(err)
}

func wrongPassword(cause error) error {
	return &web.Error{
		Status: http.StatusForbidden, Detail: "The current password is wrong.",
		Cause: fmt.Errorf("%w: %w", errWrong, cause),
	}
}

func fixedPassword(cause error) error {
	return &web.Error{Status: http.StatusNotFound, Detail: "Your password cannot be changed here.", Cause: cause}
}

// readPasswordOrder reads a JSON object, or a form. The page's form repeats the new
// password, because its user does not see it.
func readPasswordOrder(ex *web.Exchange) (order passwordOrder, err error) {
	if ex.MediaType() == web.TypeForm {
		order, err = passwordsOfForm(ex.Body)
	} else {
		order, err = passwordsOfObject(ex)
	}
	if err == nil {
		err = signin.CheckNewPassword(order.next, order.again...)
	}
	return order, err
}

func passwordsOfObject(ex *web.Exchange) (order passwordOrder, err error) {
	o, err := bodies.ReadObject(ex, bodies.OrForm)
	if err != nil {
		return order, err
	}
	if order.current, err = o.Text("current"); err != nil {
		return order, err
	}
	order.next, err = o.Text("new")
	return order, err
}

func passwordsOfForm(body []byte) (order passwordOrder, err error) {
	values, err := bodies.ParseForm(body, "current", "new")
	if err != nil || len(values["again"]) > 1 {
		return order, web.BadRequest(`The form must have the fields "current" and "new".`, nil)
	}
	return passwordOrder{values.Get("current"), values.Get("new"), values["again"]}, nil
}
