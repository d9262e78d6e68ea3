package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/bodies"
	"authgate/gateway/identity/auth"
	"authgate/gateway/login/apitokens"
	"authgate/gateway/pages"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

const (
	maxTokenName     = 100 // characters
	maxTokenLifetime = 365 * 24 * time.Hour
)

// tokens is /account/tokens and below: the API tokens of the user.
type tokens struct {
	page     *page
	tokens   *apitokens.Set
	sessions auth.Chain
}

// tokenInfo describes a token to its user.
type tokenInfo struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Token     string   `json:"token,omitempty"` // once
	Roles     []string `json:"roles"`
	CreatedAt string   `json:"created_at"`
	LastUsed  *string  `json:"last_used_at,omitempty"` // empty before the first use
	ExpiresAt string   `json:"expires_at"`
}

func newTokenInfo(t *apitokens.Token) tokenInfo {
	return tokenInfo{
		ID: t.ID, Name: t.Name, Roles: t.Roles, CreatedAt: timeText(t.Created), ExpiresAt: timeText(t.Expires),
	}
}

// timeText returns a time as RFC 3339 in UTC, empty for none.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Truncate(time.Second).Format(time.RFC3339)
}

// list is GET /account/tokens.
func (t *tokens) list(ex *web.Exchange) error {
	id, err := t.page.options.Reader(ex)
	if err != nil {
		return err
	}
	infos := []tokenInfo{}
	owner, err := t.tokens.Owner(&ex.Store, id)
	if err != nil && !errors.Is(err, apitokens.ErrNoOwner) {
		return err
	}
	if err == nil {
		tokens, err := t.tokens.List(&ex.Store, owner)
		if err != nil {
			return err
		}
		for _, token := range tokens {
			info, used := newTokenInfo(&token), timeText(token.LastUsed)
			info.LastUsed = &used
			infos = append(infos, info)
		}
	}
	ex.JSON(web.TypeJSON, http.StatusOK, map[string][]tokenInfo{"tokens": infos})
	return nil
}

// create is POST /account/tokens. The answer shows the token, this once.
func (t *tokens) create(ex *web.Exchange) error {
	id := ex.Identity
	owner, err := t.tokens.Owner(&ex.Store, id)
	if err != nil {
		return noTokens(err)
	}
	token, made, err := t.make(ex, owner)
	if err != nil {
		status, notice := tokenNotice(err)
		return t.page.refuse(ex, pages.ManagePrograms, status, notice, err)
	}
	ex.Audit("token_created", slog.String("token", made.ID))
	if endpoint.ByPage(ex) {
		return t.page.write(ex, id, http.StatusCreated, pages.ManagePrograms, func(view *pages.Manage) {
			view.NewToken, view.TokenName, view.NewTokenPlain = token, made.Name, len(made.Roles) == 0
		})
	}
	info := newTokenInfo(&made)
	info.Token = token
	ex.JSON(web.TypeJSON, http.StatusCreated, info)
	return nil
}

// make makes the token that the request orders.
func (t *tokens) make(ex *web.Exchange, owner *apitokens.Owner) (string, apitokens.Token, error) {
	wanted, err := order(ex, owner)
	if err != nil {
		return "", apitokens.Token{}, err
	}
	ctx, end := ex.Store.Recording()
	defer end()
	token, made, err := t.tokens.Create(ctx, owner, wanted.name, wanted.roles, wanted.lifetime)
	if err == nil {
		err = t.stillSignedIn(ctx, ex, owner, made.ID)
	}
	switch {
	case errors.Is(err, apitokens.ErrRoleNotHeld):
		err = web.BadRequest("A token can have no role that you do not have.", err)
	case errors.Is(err, apitokens.ErrTooMany):
		err = &web.Error{
			Status: http.StatusConflict, Cause: err,
			Detail: fmt.Sprintf("You have %d tokens, which is the limit. Revoke one that you do not need.",
				apitokens.Max),
		}
	}
	return token, made, err
}

// stillSignedIn takes a new token back if the login that made it has ended meanwhile.
// The user who signs out everywhere ends the logins first and then the tokens, so one
// of the two requests finds the token.
func (t *tokens) stillSignedIn(ctx context.Context, ex *web.Exchange, owner *apitokens.Owner, token string) error {
	_, err := t.sessions.Alive(ctx, &ex.Credentials)
	if err != nil {
		err = errors.Join(err, t.tokens.Revoke(ctx, owner, token))
	}
	return err
}

// tokenNotice returns the status of a mistake in an order, and the notice of the page.
func tokenNotice(err error) (int, pages.ManageNotice) {
	mistake, ok := errors.AsType[*web.Error](err)
	switch {
	case ok && mistake.Status == http.StatusBadRequest:
		return mistake.Status, pages.ManageTokenRefused
	case ok && mistake.Status == http.StatusConflict:
		return mistake.Status, pages.ManageTooManyTokens
	}
	return 0, pages.ManageNothing
}

// revoke is POST /account/tokens/revoke.
func (t *tokens) revoke(ex *web.Exchange) error {
	owner, err := t.tokens.Owner(&ex.Store, ex.Identity)
	if err != nil {
		return noTokens(err)
	}
	token, err := readText(ex, "id")
	if err != nil {
		return err
	}
	ctx, end := ex.Store.Recording()
	defer end()
	err = t.tokens.Revoke(ctx, owner, token)
	if errors.Is(err, apitokens.ErrUnknown) {
		return &web.Error{Status: http.StatusNotFound, Detail: "You have no token with this id.", Cause: err}
	}
	if err != nil {
		return err
	}
	ex.Audit("token_revoked", slog.String("token", token))
	if ex.MediaType() == web.TypeForm {
		t.page.done(ex, doneToken)
		return nil
	}
	ex.JSON(web.TypeJSON, http.StatusOK, map[string]string{"message": "Revoked."})
	return nil
}

// readText returns the one text that a request needs, under a name.
func readText(ex *web.Exchange, name string) (string, error) {
	if ex.MediaType() == web.TypeForm {
		values, err := bodies.ReadForm(ex, `The form must have one field "`+name+`".`, name)
		return values.Get(name), err
	}
	o, err := bodies.ReadObject(ex, bodies.OrForm)
	if err != nil {
		return "", err
	}
	return o.Text(name)
}

// may returns why the user cannot have API tokens.
func (t *tokens) may(id *policy.Identity) error {
	if t.tokens.MayOwn(id) {
		return nil
	}
	return noTokens(apitokens.ErrNoOwner)
}

// noTokens returns the answer to a user who cannot have API tokens, and another error
// as it is.
func noTokens(err error) error {
	if !errors.Is(err, apitokens.ErrNoOwner) {
		return err
	}
	return &web.Error{
		Status: http.StatusForbidden, Detail: "Only users with a local account can have API tokens.",
		Cause: fmt.Errorf("%w: users of providers have them only with delegated.api_tokens", err),
	}
}

// tokenOrder is a user's order for a new token.
type tokenOrder struct {
	name     string
	roles    []string
	lifetime time.Duration
}

// order reads the body of a request for a token of owner.
func order(ex *web.Exchange, owner *apitokens.Owner) (*tokenOrder, error) {
	if ex.MediaType() == web.TypeForm {
		return readTokenForm(ex)
	}
	o, err := bodies.ReadObject(ex, bodies.OrForm)
	if err != nil {
		return nil, err
	}
	return readTokenOrder(o, owner)
}

// readTokenForm reads the form of the page. The token has the roles that it names,
// and no others.
func readTokenForm(ex *web.Exchange) (*tokenOrder, error) {
	const detail = `The form must have the fields "name" and "expires_in", and may have "roles".`
	values, err := bodies.ReadForm(ex, detail, "name", "expires_in")
	if err != nil {
		return nil, err
	}
	seconds, err := strconv.ParseInt(values.Get("expires_in"), 10, 64)
	if err != nil {
		return nil, badLifetime()
	}
	return newTokenOrder(values.Get("name"), seconds, values["roles"])
}

// readTokenOrder reads a JSON object. An unknown member is an error, so that a
// misspelled "roles" does not give all of them.
func readTokenOrder(o bodies.Object, owner *apitokens.Owner) (*tokenOrder, error) {
	for member := range o {
		if !slices.Contains([]string{"name", "expires_in", "roles"}, member) {
			return nil, web.BadRequest(
				`The body can have the fields "name", "expires_in" and "roles", and no other.`, nil)
		}
	}
	name, err := o.Text("name")
	if err != nil {
		return nil, err
	}
	var seconds *int64
	if err := json.Unmarshal(o["expires_in"], &seconds); err != nil || seconds == nil {
		return nil, badLifetime()
	}
	roles := slices.Clone(owner.Roles())
	if _, given := o["roles"]; given {
		if roles, err = o.Texts("roles"); err != nil {
			return nil, err
		}
	}
	return newTokenOrder(name, *seconds, roles)
}

func newTokenOrder(name string, seconds int64, roles []string) (*tokenOrder, error) {
	name = strings.TrimSpace(name)
	if n := utf8.RuneCountInString(name); n == 0 || n > maxTokenName || strings.ContainsFunc(name, policy.Hidden) {
		return nil, web.BadRequest(
			fmt.Sprintf("The name must have 1 to %d characters that can be seen.", maxTokenName), nil)
	}
	if seconds < 1 || seconds > int64(maxTokenLifetime/time.Second) {
		return nil, badLifetime()
	}
	once := []string{}
	for _, role := range roles {
		if !slices.Contains(once, role) {
			once = append(once, role)
		}
	}
	return &tokenOrder{name: name, roles: once, lifetime: time.Duration(seconds) * time.Second}, nil
}

func badLifetime() error {
	const detail = `The body must have the field "expires_in": whole seconds, from 1 to %d (a year).`
	return web.BadRequest(fmt.Sprintf(detail, int64(maxTokenLifetime/time.Second)), nil)
}
