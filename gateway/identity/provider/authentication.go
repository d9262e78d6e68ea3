package provider

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/oauth2"

	"authgate/gateway/config/issuers"
)

// authentication is how the client authenticates (RFC 6749, section 2.3). The form
// always contains client_id: a public client needs it there, and some providers
// expect it there from every client.
type authentication struct {
	id, secret string // without a secret: a public client
	style      oauth2.AuthStyle
}

// authenticate chooses the method: the configured one, else basic or post if
// announced, else basic (RFC 8414, section 2).
func authenticate(c Client, announced []string) (authentication, error) {
	method := c.AuthMethod
	switch {
	case c.Secret == "":
		return authentication{id: c.ID, style: oauth2.AuthStyleInParams}, nil
	case method == "" && (len(announced) == 0 || slices.Contains(announced, issuers.AuthMethodBasic)):
		method = issuers.AuthMethodBasic
	case method == "" && slices.Contains(announced, issuers.AuthMethodPost):
		method = issuers.AuthMethodPost
	}
	style, ok := map[string]oauth2.AuthStyle{issuers.AuthMethodBasic: oauth2.AuthStyleInHeader,
		issuers.AuthMethodPost: oauth2.AuthStyleInParams}[method]
	if !ok {
		return authentication{}, fmt.Errorf("the client authentication %q is not supported, and the provider "+
			"announces %q; let it accept %s or %s",
			method, announced, issuers.AuthMethodBasic, issuers.AuthMethodPost)
	}
	return authentication{id: c.ID, secret: c.Secret, style: style}, nil
}

// request returns an authenticated POST request with the form.
func (a authentication) request(endpoint string, form url.Values) (*http.Request, error) {
	form = maps.Clone(form)
	if a.id != "" {
		form.Set("client_id", a.id)
	}
	if a.secret != "" && a.style == oauth2.AuthStyleInParams {
		form.Set("client_secret", a.secret)
	}
	r, err := http.NewRequest(http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if a.style == oauth2.AuthStyleInHeader {
		r.SetBasicAuth(url.QueryEscape(a.id), url.QueryEscape(a.secret)) // RFC 6749, section 2.3.1
	}
	return r, nil
}
