package endpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"authgate/gateway/auth"
	"authgate/gateway/login"
	"authgate/gateway/web"
	"authgate/policy"
)

const (
	maxTokenName     = 100 // characters
	maxTokenLifetime = 365 * 24 * time.Hour
)

// accountTokens is /account/tokens and below: the API tokens of the user.
type accountTokens struct {
	*account
	accounts *auth.Accounts
	tokens   *login.APITokens
}

// tokenInfo is what the user sees of a token.
type tokenInfo struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Token     string   `json:"token,omitempty"` // once
	Roles     []string `json:"roles"`
	CreatedAt string   `json:"created_at"`
	LastUsed  *string  `json:"last_used_at,omitempty"` // empty before the first use
	ExpiresAt string   `json:"expires_at"`
}

func newTokenInfo(t *login.APIToken) tokenInfo {
	return tokenInfo{ID: t.ID, Name: t.Name, Roles: t.Roles, CreatedAt: timeText(t.Created), ExpiresAt: timeText(t.Expires)}
}

// timeText returns a time as RFC 3339 in UTC, empty for none.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Truncate(time.Second).Format(time.RFC3339)
}

// list is GET /account/tokens.
func (a *accountTokens) list(ex *web.Exchange) error {
	id, err := a.identity(ex)
	if err != nil {
		return err
	}
	infos := []tokenInfo{}
	if owner, ok := a.owner(id); ok {
		tokens, err := a.tokens.List(&ex.Store, owner.Username)
		if err != nil {
			return err
		}
		for _, t := range tokens {
			info, used := newTokenInfo(&t), timeText(t.LastUsed)
			info.LastUsed = &used
			infos = append(infos, info)
		}
	}
	ex.JSON(web.TypeJSON, http.StatusOK, map[string][]tokenInfo{"tokens": infos})
	return nil
}

// create is POST /account/tokens. The answer shows the token, this once.
func (a *accountTokens) create(ex *web.Exchange) error {
	owner, o, err := a.order(ex)
	if err != nil {
		return err
	}
	wanted, err := readTokenOrder(o, owner)
	if err != nil {
		return err
	}
	ctx, end := ex.Store.Recording()
	defer end()
	token, made, err := a.tokens.Create(ctx, owner, wanted.name, wanted.roles, wanted.lifetime)
	switch {
	case errors.Is(err, login.ErrRoleNotHeld):
		return &web.Error{Status: http.StatusBadRequest, Detail: "A token can have no role that you do not have.", Cause: err}
	case errors.Is(err, login.ErrTooManyAPITokens):
		return &web.Error{
			Status: http.StatusConflict, Cause: err,
			Detail: fmt.Sprintf("You have %d tokens, which is the limit. Revoke one that you do not need.", login.MaxAPITokens),
		}
	case err != nil:
		return err
	}
	ex.Audit("token_created", slog.String("token", made.ID))
	info := newTokenInfo(&made)
	info.Token = token
	ex.JSON(web.TypeJSON, http.StatusCreated, info)
	return nil
}

// revoke is POST /account/tokens/revoke.
func (a *accountTokens) revoke(ex *web.Exchange) error {
	owner, o, err := a.order(ex)
	if err != nil {
		return err
	}
	id, err := o.text("id")
	if err != nil {
		return err
	}
	ctx, end := ex.Store.Recording()
	defer end()
	err = a.tokens.Revoke(ctx, owner.Username, id)
	if errors.Is(err, login.ErrNoAPIToken) {
		return &web.Error{Status: http.StatusNotFound, Detail: "You have no token with this id.", Cause: err}
	}
	if err != nil {
		return err
	}
	ex.Audit("token_revoked", slog.String("token", id))
	ex.JSON(web.TypeJSON, http.StatusOK, map[string]string{"message": "Revoked."})
	return nil
}

// owner returns the local account of an identity. Others have none: what a
// provider says about them is known only while they are signed in.
func (a *accountTokens) owner(id *policy.Identity) (*auth.Account, bool) {
	if id.Provider != policy.LocalProvider {
		return nil, false
	}
	return a.accounts.Lookup(id.Username)
}

// order returns the account whose tokens the request may change, and its body.
func (a *accountTokens) order(ex *web.Exchange) (*auth.Account, object, error) {
	owner, err := a.writer(ex)
	if err != nil {
		return nil, nil, err
	}
	o, err := jsonBody(ex)
	return owner, o, err
}

// writer returns the account whose tokens the request may change.
func (a *accountTokens) writer(ex *web.Exchange) (*auth.Account, error) {
	id, err := a.changer(ex)
	if err != nil {
		return nil, err
	}
	owner, ok := a.owner(id)
	if !ok {
		return nil, &web.Error{
			Status: http.StatusForbidden, Detail: "Only users with a local account can have API tokens.",
			Cause: errors.New("the user signed in at a provider"),
		}
	}
	return owner, nil
}

func jsonBody(ex *web.Exchange) (object, error) {
	if ex.MediaType() != web.TypeJSON {
		return nil, unsupportedMedia(web.TypeJSON)
	}
	return parseObject(ex.Body)
}

// tokenOrder is what a user wants for a new token.
type tokenOrder struct {
	name     string
	roles    []string
	lifetime time.Duration
}

// readTokenOrder reads the body of a request for a token of owner. An unknown member
// is an error, so that a misspelled "roles" does not give all of them.
func readTokenOrder(o object, owner *auth.Account) (*tokenOrder, error) {
	for member := range o {
		if !slices.Contains([]string{"name", "expires_in", "roles"}, member) {
			return nil, badOrder(`The body can have the fields "name", "expires_in" and "roles", and no other.`)
		}
	}
	name, err := o.text("name")
	if err != nil {
		return nil, err
	}
	name = strings.TrimSpace(name)
	if n := utf8.RuneCountInString(name); n == 0 || n > maxTokenName || strings.ContainsFunc(name, unicode.IsControl) {
		return nil, badOrder(fmt.Sprintf("The name must have 1 to %d characters, and no control characters.", maxTokenName))
	}
	var seconds *int64
	if err := json.Unmarshal(o["expires_in"], &seconds); err != nil || seconds == nil || *seconds < 1 || *seconds > int64(maxTokenLifetime/time.Second) {
		return nil, badOrder(fmt.Sprintf(`The body must have the field "expires_in": whole seconds, from 1 to %d (a year).`, int64(maxTokenLifetime/time.Second)))
	}
	roles := slices.Clone(owner.Roles)
	if raw, given := o["roles"]; given {
		if roles, err = readRoles(raw); err != nil {
			return nil, err
		}
	}
	return &tokenOrder{name: name, roles: roles, lifetime: time.Duration(*seconds) * time.Second}, nil
}

// readRoles reads an array of strings. JSON's null in it would be an empty string.
func readRoles(raw json.RawMessage) ([]string, error) {
	var given []*string
	if err := json.Unmarshal(raw, &given); err != nil || given == nil || slices.Contains(given, nil) {
		return nil, badOrder(`The field "roles" must be an array of strings.`)
	}
	roles := []string{}
	for _, role := range given {
		if !slices.Contains(roles, *role) {
			roles = append(roles, *role)
		}
	}
	return roles, nil
}

func badOrder(detail string) error { return &web.Error{Status: http.StatusBadRequest, Detail: detail} }
