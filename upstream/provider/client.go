package provider

import (
	"errors"
	"mime"
	"net/http"
	"net/url"
)

// formType is the media type of requests that clients send themselves.
const formType = "application/x-www-form-urlencoded"

// fromClient reads a form that a client has posted, and finds out which client
// it is: one with a secret shows it in the header or in the form, one without
// just names itself (RFC 6749, sections 2.3.1 and 3.2.1).
func (p *Provider) fromClient(r *http.Request) (*Client, url.Values, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != formType {
		return nil, nil, &failure{"invalid_request", "the body must be " + formType}
	}
	if err := r.ParseForm(); err != nil {
		return nil, nil, &failure{"invalid_request", "the form cannot be read or is too long"}
	}
	form := r.PostForm
	for name, all := range form {
		if len(all) > 1 {
			return nil, nil, &failure{"invalid_request", "the parameter " + name + " is there more than once"}
		}
	}
	id, shown := form.Get("client_id"), form.Get("client_secret")
	if r.Header.Get("Authorization") != "" {
		if shown != "" {
			return nil, nil, &failure{"invalid_request", "the client authenticates in the header and in the form; expected one"}
		}
		headerID, headerSecret, err := basicClient(r)
		if err != nil || id != "" && id != headerID {
			return nil, nil, &failure{"invalid_client", "the header Authorization is malformed or names another client than the form"}
		}
		id, shown = headerID, headerSecret
	}
	client := p.clients[id]
	if client == nil || !samePassword(shown, client.Secret) {
		return nil, nil, &failure{"invalid_client", "the client is unknown or its secret is wrong"}
	}
	return client, form, nil
}

// basicClient reads the header of client_secret_basic, in which both parts are
// form-encoded first.
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
