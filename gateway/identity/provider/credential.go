package provider

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// credential is the bearer token of calls to an issuer, in a file that may be replaced at any time,
// as a cluster does with the tokens of its pods.
type credential struct {
	file   string
	places []string // host:port that get it; discovery may announce others, which do not
	logger *slog.Logger
}

// newCredential returns the credential in a file, which goes to the hosts of addresses.
func newCredential(file string, logger *slog.Logger, addresses []string) *credential {
	c := &credential{file: file, logger: logger}
	for _, address := range addresses {
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			c.places = append(c.places, placeOf(u))
		}
	}
	return c
}

// placeOf returns the host and port of an address.
func placeOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// present makes a client send a credential.
func (c *client) present(credential *credential) {
	l, _ := c.http.Transport.(limits)
	l.credential = credential
	c.http.Transport = l
}

// on returns the request with the credential, or as it is if its address must not get it.
func (c *credential) on(r *http.Request) (*http.Request, error) {
	if c == nil || r.URL.Scheme != "https" && !policy.Loopback(r.URL.Hostname()) ||
		!slices.Contains(c.places, placeOf(r.URL)) {
		return r, nil
	}
	token, err := c.readToken()
	if err != nil {
		c.logger.Error("the call to the issuer fails, because its credential_file has no token; "+
			"let the file have one", "error", err)
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return r, nil
}

// readToken reads the token in the file.
func (c *credential) readToken() (string, error) {
	content, _, err := strictyaml.ReadFile(c.file, strictyaml.MaxSecret)
	if err != nil {
		return "", fmt.Errorf("credential_file: %w", err)
	}
	token := strings.TrimSpace(string(content))
	switch {
	case token == "":
		return "", fmt.Errorf("credential_file: the file %s is empty", c.file)
	case strings.ContainsAny(token, " \t") || !httpguts.ValidHeaderFieldValue(token):
		return "", errors.New("credential_file: the file " + c.file + " has more than one token")
	}
	return token, nil
}
