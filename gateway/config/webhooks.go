package config

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
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
	Name         string        `yaml:"name" check:"name"`
	URL          Secret        `yaml:"url" check:"receiver"`
	Secret       Secret        `yaml:"secret" check:"signing-secret"`
	Secrets      []Secret      `yaml:"secrets" check:"signing-secrets"` // instead of Secret
	Events       []string      `yaml:"events" check:"event"`            // nil: all
	Timeout      time.Duration `yaml:"timeout" default:"15s" min:"1ns"`
	TrustedRoots string        `yaml:"trusted_roots" file:"public"` // PEM file, beside the roots of the system

	TrustedRootsContent []byte `yaml:"-"` // of the file
}

// Address returns the URL of the receiver.
func (w *Webhook) Address() (*url.URL, error) { return receiverURL(w.URL.Reveal()) }

// receiverURL parses the URL of a receiver. The error does not quote it.
func receiverURL(raw string) (*url.URL, error) {
	u, err := section.EndpointURL(raw)
	if err != nil {
		return nil, errors.New("is not the URL of a receiver; expected one like https://ntfy.example.org/gate, " +
			"without @ and #; write %40 for an @ in its path")
	}
	if u.Scheme == "http" && !policy.Loopback(u.Hostname()) {
		return nil, errors.New("is not https; http is for receivers on this machine only")
	}
	return u, nil
}

func checkReceiver(raw string) error {
	_, err := receiverURL(raw)
	return err
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
		if keys[i], err = signingKey(secret.Reveal()); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// secretMark begins a secret of Standard Webhooks.
const secretMark = "whsec_"

// signingKey returns the key in a secret. The error does not quote it.
func signingKey(secret string) ([]byte, error) {
	text, marked := strings.CutPrefix(secret, secretMark)
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if !marked || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New("is not the secret of a webhook; expected whsec_ and the base64 of 24 to 64 bytes, " +
			`for example from: echo "whsec_$(openssl rand -base64 32)"`)
	}
	return key, nil
}

func checkSigningSecret(secret string) error {
	_, err := signingKey(secret)
	return err
}

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
		case first < i:
			r.Fault(path+".name", "%q is already the name of webhooks[%d]; choose another name", w.Name, first)
		}
		if w.URL == "" {
			r.Fault(path+".url", "the URL of the receiver is needed, like https://ntfy.example.org/gate")
		}
		switch {
		case w.Secret != "" && r.Given(path+".secrets"):
			r.Fault(path+".secrets", "is given beside secret; write all of them here, or remove this key")
		case w.Secret == "" && len(w.Secrets) == 0 && r.Given(path+".secrets"):
			r.Fault(path+".secrets", "must not be empty; give each secret that signs an event")
		case w.Secret == "" && len(w.Secrets) == 0:
			r.Fault(path+".secret", `the secret that signs each event is needed; `+
				`make one with: echo "whsec_$(openssl rand -base64 32)"`)
		}
		if len(w.Events) == 0 && r.Given(path+".events") {
			r.Fault(path+".events", "must not be empty; name the events to send, or remove this key for all of them")
		}
	}
}

// checkEvent checks the name of an event.
func checkEvent(event string) error {
	known := audit.Events()
	if slices.Contains(known, event) {
		return nil
	}
	hint := "the events are " + strings.Join(known, ", ")
	if near, ok := strictyaml.Nearest(event, known); ok {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return fmt.Errorf("there is no audit event %q; %s", event, hint)
}
