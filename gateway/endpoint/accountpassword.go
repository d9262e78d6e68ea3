package endpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	"authgate/gateway/auth"
	"authgate/gateway/login"
	"authgate/gateway/pages"
	"authgate/gateway/web"
	"authgate/policy"
)

const (
	minPassword = 8    // characters
	maxPassword = 1024 // bytes
	// passwordTime bounds how long a change waits for others, and for the file.
	passwordTime = 30 * time.Second
)

// Errors of Passwords.
var (
	// ErrPasswordChanged: the verified password is not the current one any more.
	ErrPasswordChanged = errors.New("endpoint: the password was changed at the same moment")
	// ErrPasswordFixed: the password of the account cannot be changed here.
	ErrPasswordFixed = errors.New("endpoint: the password of the account cannot be changed here")
)

// Passwords changes the passwords of local accounts.
type Passwords interface {
	// Writable reports whether there is a file of accounts that can be changed.
	Writable() bool
	// Has reports whether the account of that name is in the file.
	Has(username string) bool
	// Set gives an account another password hash. It applies when Set returns
	// without an error. The errors are ErrPasswordChanged, ErrPasswordFixed, and
	// failures.
	Set(ctx context.Context, change PasswordChange) (ChangedPassword, error)
}

// PasswordChange is what a user wants to change.
type PasswordChange struct {
	Identity *policy.Identity // of the user; its login goes on
	Verified *auth.Account    // the account when its password was verified
	Hash     string           // of the new password
	// Give returns the new values of the login; see login.Overview.Renew.
	Give func(*login.Login) []login.Handle
}

// ChangedPassword tells what became of the logins of an account.
type ChangedPassword struct {
	Ended []*login.Login // the other logins; also beside an error
	// Renewed is the login that goes on. It is nil if it has ended too: the store
	// failed, or an operator has disabled the account.
	Renewed *login.Login
}

// accountPassword is POST /account/password.
type accountPassword struct {
	*accountLogins
	verifier *auth.Verifier
	issuer   *issuer
}

// passwordOrder is what a user posts.
type passwordOrder struct{ current, next string }

// missing returns why no password can be changed.
func (a *accountPassword) missing() error {
	if !a.passwords.Writable() {
		return fixedPassword(errors.New("accounts.file is not set, or cannot be replaced"))
	}
	return nil
}

// never returns why the user cannot change a password.
func (a *accountPassword) never(id *policy.Identity) error {
	owner, ok := a.owner(id)
	switch {
	case !ok:
		return &web.Error{
			Status: http.StatusForbidden, Detail: "Only users with a local account have a password here.",
			Cause: errors.New("the user signed in at a provider"),
		}
	case !a.passwords.Has(owner.Username):
		return fixedPassword(errors.New("the account is not in accounts.file"))
	}
	return nil
}

func (a *accountPassword) serve(ex *web.Exchange) error {
	id := ex.Identity
	owner, ok := a.owner(id)
	if !ok { // a reload has removed it since
		return auth.ErrRejected
	}
	// By a form, only cookies can give new tokens.
	form := ex.MediaType() == web.TypeForm
	values := &newValues{issuer: a.issuer, ex: ex, tokens: !form || a.issuer.cookies.Tokens()}
	order, err := readPasswordOrder(ex)
	if err == nil {
		err = a.change(ex, id, owner, order, values)
	}
	if err != nil {
		status, notice := passwordNotice(err)
		return a.refuse(ex, id, status, notice, err)
	}
	if form {
		a.done(ex, donePassword)
		return nil
	}
	const message = "Changed. Your other logins and your API tokens have ended."
	ex.JSON(web.TypeJSON, http.StatusOK, a.issuer.tokens.response(message, values.pair))
	return nil
}

// change checks the current password, as a sign-in does, and sets the next one.
func (a *accountPassword) change(ex *web.Exchange, id *policy.Identity, owner *auth.Account, order passwordOrder, values *newValues) error {
	verified, err := a.verifier.CheckFresh(ex.Request.Context(), a.accounts, owner.Username, order.current, ex.Peer.Client)
	if result := web.LoginResult(err); err != nil && result != "" {
		ex.Audit("password_changed", slog.String("result", result))
	}
	if errors.Is(err, auth.ErrRejected) {
		return wrongPassword(err)
	}
	if err != nil {
		return err
	}
	hash, err := a.verifier.NewHash(ex.Request.Context(), order.next)
	if err != nil {
		return err
	}
	// A client that leaves must not leave half a change behind.
	ctx, cancel := context.WithTimeout(ex.Store.Detached(), passwordTime)
	defer cancel()
	changed, err := a.passwords.Set(ctx, PasswordChange{Identity: id, Verified: verified, Hash: hash, Give: values.give})
	a.ended(ex, changed.Ended)
	switch {
	case errors.Is(err, ErrPasswordChanged):
		return wrongPassword(err)
	case errors.Is(err, ErrPasswordFixed):
		return fixedPassword(err)
	case err != nil:
		return fmt.Errorf("changing a password: %w", err)
	}
	ex.Audit("password_changed")
	return values.deliver(changed.Renewed, verified)
}

// Mistakes of a user who changes a password, as the cause of a *web.Error.
var (
	errWrong   = errors.New("the current password is wrong")
	errShort   = errors.New("the new password is too short")
	errLong    = errors.New("the new password is too long")
	errDiffers = errors.New("the new password and its repetition differ")
)

// passwordNotice returns the status of a mistake, and what the page says about it.
func passwordNotice(err error) (int, pages.ManageNotice) {
	switch {
	case errors.Is(err, errWrong):
		return http.StatusForbidden, pages.ManageWrong
	case errors.Is(err, errShort):
		return http.StatusBadRequest, pages.ManageShort
	case errors.Is(err, errLong):
		return http.StatusBadRequest, pages.ManageLong
	case errors.Is(err, errDiffers):
		return http.StatusBadRequest, pages.ManageDiffers
	}
	return 0, pages.ManageNothing
}

func wrongPassword(cause error) error {
	return &web.Error{Status: http.StatusForbidden, Detail: "The current password is wrong.", Cause: fmt.Errorf("%w: %w", errWrong, cause)}
}

func fixedPassword(cause error) error {
	return &web.Error{Status: http.StatusNotFound, Detail: "Your password cannot be changed here.", Cause: cause}
}

func badPassword(cause error, detail string) error {
	return &web.Error{Status: http.StatusBadRequest, Detail: detail, Cause: cause}
}

// readPasswordOrder reads a JSON object, or a form. The page's form repeats the new
// password, because its user does not see it.
func readPasswordOrder(ex *web.Exchange) (order passwordOrder, err error) {
	switch ex.MediaType() {
	case web.TypeJSON:
		order, err = passwordsOfObject(ex.Body)
	case web.TypeForm:
		order, err = passwordsOfForm(ex.Body)
	default:
		return order, unsupportedMedia(web.TypeJSON + " or " + web.TypeForm)
	}
	switch {
	case err != nil:
	case utf8.RuneCountInString(order.next) < minPassword:
		err = badPassword(errShort, fmt.Sprintf("The new password must have at least %d characters.", minPassword))
	case len(order.next) > maxPassword:
		err = badPassword(errLong, fmt.Sprintf("The new password must have at most %d bytes.", maxPassword))
	}
	return order, err
}

func passwordsOfObject(body []byte) (order passwordOrder, err error) {
	o, err := parseObject(body)
	if err != nil {
		return order, err
	}
	if order.current, err = o.text("current"); err != nil {
		return order, err
	}
	order.next, err = o.text("new")
	return order, err
}

func passwordsOfForm(body []byte) (order passwordOrder, err error) {
	values, err := url.ParseQuery(string(body))
	current, next, again := values["current"], values["new"], values["again"]
	if err != nil || len(current) != 1 || len(next) != 1 || len(again) > 1 || !utf8.ValidString(current[0]+next[0]) {
		return order, badOrder(`The form must have the fields "current" and "new".`)
	}
	if len(again) == 1 && again[0] != next[0] {
		return order, badPassword(errDiffers, "The new password and its repetition differ.")
	}
	return passwordOrder{current[0], next[0]}, nil
}
