package provider

import (
	"errors"
	"mime"
	"net/http"
	"net/url"
)

// formType is the media type of requests from clients.
const formType = "application/x-www-form-urlencoded"

// fromClient reads a form from a client and authenticates the client. A client
// with a secret sends it in the header or in the form. A public client sends only
// its ID (RFC 6749, sections 2.3.1 and 3.2.1).
func (p *Provider) fromClient(r *http.Request) (*Client, url.Values, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != formType {
		return nil, nil, &failure{"invalid_request", "the body must be " + formType}
	}
	if err := r.ParseForm(); err != nil {
		return nil, nil, &failure{"invalid_request", "the form is malformed or too long"}
	}
	form := r.PostForm
	for name, all := range form {
		if len(all) > 1 {
			return nil, nil, &failure{"invalid_request", "the parameter " + name + " occurs more than once"}
		}
	}
	id, shown := form.Get("client_id"), form.Get("client_secret")
	if r.Header.Get("Authorization") != "" {
		if shown != "" {
			return nil, nil, &failure{"invalid_request", "the client authenticates in the header and in the form; expected one"}
		}
		headerID, headerSecret, err := basicClient(r)
		if err != nil || id != "" && id != headerID {
			return nil, nil, &failure{"invalid_client",
				"the header Authorization is malformed or names another client than the form"}
		}
		id, shown = headerID, headerSecret
	}
	client := p.clients[id]
	if client == nil || !samePassword(shown, client.Secret) {
		return nil, nil, &failure{"invalid_client", "the client is unknown or its secret is wrong"}
	}
	return client, form, nil
}

// basicClient reads the header of client_secret_basic, whose parts are
// form-encoded.
func basicClient(r *http.Request) (id, secret string, err error) {
	user, password, ok := r.BasicAuth()
	if !ok {
		return "", "", errors.New("not Basic credentials")
	}
	if id, err = url.QueryUnescape(user); err != nil {
		return "", "", err
	}
	secret, err = url.QueryUnescape(password)
	return id, secret, err
}
