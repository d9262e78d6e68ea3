package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// refreshGrant is the grant type of a refresh (RFC 6749, section 6).
const refreshGrant = "refresh_token"

// tokens calls the token endpoint, and distinguishes refusals from faults.
//
// golang.org/x/oauth2 is not used here, because it loses tokens: it takes an answer
// for a form by its media type, and refuses an expires_in that is no whole number.
func (p *Provider) tokens(ctx context.Context, m *metadata, client authentication, form url.Values) (Tokens, error) {
	r, err := client.request(m.Token, form)
	if err != nil {
		return Tokens{}, p.fault("token", err)
	}
	var tokens Tokens
	err = p.client.call(ctx, "token", func(ctx context.Context) error {
		got, err := p.client.do(ctx, r)
		var members claims
		if err == nil {
			members, err = readTokenAnswer(r, got)
		}
		if refused, ok := errors.AsType[*refusal](err); ok && !unanswered(err) {
			switch {
			case slices.Contains(clientFaults, refused.code):
				return fail(p.options.Name, "token", ErrClient, refused)
			case slices.Contains(refusals, refused.code), form.Get("grant_type") == refreshGrant:
				return fail(p.options.Name, "token", ErrRefused, refused)
			}
		}
		if err != nil {
			return err
		}
		tokens, err = members.tokens(m, p.now())
		return err
	})
	return tokens, err
}

// readTokenAnswer returns the members of an answer of a token endpoint. It is JSON if
// it begins like that, and otherwise a form (GitHub). An error with a 2xx status is a
// refusal (GitHub).
func readTokenAnswer(r *http.Request, got *answer) (claims, error) {
	members, body := claims{}, bytes.TrimSpace(got.body)
	switch {
	case bytes.HasPrefix(body, []byte("{")):
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		if err := d.Decode(&members); err != nil {
			return nil, fmt.Errorf("the answer: %w", err)
		}
	case got.mediaType == "application/x-www-form-urlencoded" || got.mediaType == "text/plain":
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, errors.New("the answer is neither a JSON object nor a form")
		}
		for name := range form {
			members[name] = form.Get(name)
		}
	default:
		return nil, errors.New("the answer is neither a JSON object nor a form")
	}
	if code, _ := members["error"].(string); code != "" {
		description, _ := members["error_description"].(string)
		return nil, newRefusal(r, got.status, code, description)
	}
	return members, nil
}

// tokens reads an answer that grants tokens (RFC 6749, section 5.1; OpenID Connect
// Core 1.0, section 3.1.3.3). The access token may be missing where nothing needs it:
// Azure AD B2C issues an ID token alone if no other scope is requested.
func (c claims) tokens(m *metadata, now time.Time) (Tokens, error) {
	id, named := c.present("id_token")
	tokens := Tokens{Expires: expiry(c["expires_in"], now)}
	tokens.Access, _ = c["access_token"].(string)
	tokens.Refresh, _ = c["refresh_token"].(string)
	tokens.ID, _ = id.(string)
	kind, typed := c.present("token_type")
	name, _ := kind.(string)
	switch {
	case tokens.Access == "" && (tokens.ID == "" || m.Userinfo != ""):
		return Tokens{}, errors.New("the answer has no access_token")
	case named && tokens.ID == "": // what it says cannot be known
		return Tokens{}, fmt.Errorf("id_token is %s, expected a string", kindOf(id))
	case typed && !strings.EqualFold(name, "Bearer"):
		return Tokens{}, fmt.Errorf("the token is of the type %s, expected Bearer", quoted(kind))
	}
	return tokens, nil
}

// expiry returns when the access token expires. Some providers send a fraction, or a
// number in a string. The result is zero if the provider does not tell.
func expiry(expiresIn any, now time.Time) time.Time {
	seconds, err := json.Number(fmt.Sprint(expiresIn)).Float64()
	if err != nil || !(seconds > 0) {
		return time.Time{}
	}
	return now.Add(time.Duration(min(seconds, maxExpiresIn) * float64(time.Second)))
}

// maxExpiresIn, a year in seconds, bounds expires_in.
const maxExpiresIn = 365 * 24 * 60 * 60
