package config

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"authgate/gateway/audit"
	"authgate/gateway/config/section"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// Webhook sends audit events to a receiver. Its URL may hold a token.
type Webhook struct {
	Name         string        `yaml:"name"`
	URL          Secret        `yaml:"url"`
	Secret       Secret        `yaml:"secret"`
	Secrets      []Secret      `yaml:"secrets"` // instead of Secret
	Events       []string      `yaml:"events"`  // nil: all
	Timeout      time.Duration `yaml:"timeout" default:"15s" min:"1ns"`
	TrustedRoots string        `yaml:"trusted_roots" file:"public"` // PEM file, beside the roots of the system

	TrustedRootsContent []byte `yaml:"-"` // of the file
}

// Address returns the URL of the receiver. The error does not quote it.
func (w *Webhook) Address() (*url.URL, error) {
	u, err := section.EndpointURL(w.URL.Reveal())
	if err != nil {
		return nil, errors.New("is not the URL of a receiver; expected one like https://ntfy.example.org/gate, " +
			"without @ and #; write %40 for an @ in its path")
	}
	if u.Scheme == "http" && !policy.Loopback(u.Hostname()) {
		return nil, errors.New("is not https; http is for receivers on this machine only")
	}
	return u, nil
}

// Roots returns the authorities that the receiver's certificate may be of, nil for those of the system.
func (w *Webhook) Roots() (*x509.CertPool, error) { return section.RootsWith(w.TrustedRootsContent) }

// Keys returns the keys that sign.
func (w *Webhook) Keys() ([][]byte, error) {
	secrets := w.Secrets
	if w.Secret != "" {
		secrets = []Secret{w.Secret}
	}
	keys := make([][]byte, len(secrets))
	for i, secret := range secrets {
		var err error
		if keys[i], err = signingKey(secret); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// secretMark begins a secret of Standard Webhooks.
const secretMark = "whsec_"

// signingKey returns the key in a secret. The error does not quote it.
func signingKey(secret Secret) ([]byte, error) {
	text, marked := strings.CutPrefix(secret.Reveal(), secretMark)
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if !marked || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New("is not the secret of a webhook; expected whsec_ and the base64 of 24 to 64 bytes, " +
			`for example from: echo "whsec_$(openssl rand -base64 32)"`)
	}
	return key, nil
}

// webhookName matches what a name may be.
var webhookName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// webhookRoots reads the extra roots for calls to receivers.
func (s sideReader) webhookRoots(webhooks []Webhook) {
	for i := range webhooks {
		if w := &webhooks[i]; w.TrustedRoots != "" {
			w.TrustedRootsContent = s.Authorities(fmt.Sprintf("webhooks[%d].trusted_roots", i), w.TrustedRoots)
		}
	}
}

// checkWebhooks checks webhooks. It makes no request to their receivers.
func checkWebhooks(r *section.Report, webhooks []Webhook) {
	for i := range webhooks {
		w, path := &webhooks[i], fmt.Sprintf("webhooks[%d]", i)
		first := slices.IndexFunc(webhooks, func(other Webhook) bool { return other.Name == w.Name })
		switch {
		case w.Name == "":
			r.Fault(path+".name", "a name is needed, for the log and the metric")
		case !webhookName.MatchString(w.Name):
			r.Fault(path+".name",
				"%q is not a valid name; use letters, digits, dots, - and _, and begin with a letter or digit", w.Name)
		case first < i:
			r.Fault(path+".name", "%q is already the name of webhooks[%d]; choose another name", w.Name, first)
		}
		if w.URL == "" {
			r.Fault(path+".url", "the URL of the receiver is needed, like https://ntfy.example.org/gate")
		} else if _, err := w.Address(); err != nil && !r.HasStandIn(path+".url") {
			r.Fault(path+".url", "%v", err)
		}
		w.checkSecrets(r, path)
		w.checkEvents(r, path+".events")
	}
}

// checkSecrets checks the secrets that sign.
func (w *Webhook) checkSecrets(r *section.Report, path string) {
	check := func(path string, secret Secret) {
		if _, err := signingKey(secret); err != nil && !r.HasStandIn(path) {
			r.Fault(path, "%v", err)
		}
	}
	switch {
	case w.Secret != "" && len(w.Secrets) > 0:
		r.Fault(path+".secrets", "is given beside secret; write all of them here, or remove this key")
	case w.Secret != "":
		check(path+".secret", w.Secret)
	case len(w.Secrets) == 0:
		r.Fault(path+".secret", `the secret that signs each event is needed; `+
			`make one with: echo "whsec_$(openssl rand -base64 32)"`)
	}
	for i, secret := range w.Secrets {
		check(fmt.Sprintf("%s.secrets[%d]", path, i), secret)
	}
}

// checkEvents checks the names of events.
func (w *Webhook) checkEvents(r *section.Report, path string) {
	if len(w.Events) == 0 && r.Given(path) {
		r.Fault(path, "must not be empty; name the events to send, or remove this key for all of them")
	}
	known := audit.Events()
	for i, event := range w.Events {
		if slices.Contains(known, event) {
			continue
		}
		hint := "the events are " + strings.Join(known, ", ")
		if near, ok := strictyaml.Nearest(event, known); ok {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		r.Fault(fmt.Sprintf("%s[%d]", path, i), "there is no audit event %q; %s", event, hint)
	}
}
