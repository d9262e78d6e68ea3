package dnschallenge

import (
	"context"
	"errors"
	"strings"
)

// A Provider changes a zone. The calls for one name do not overlap.
type Provider interface {
	// Add adds a record beside those that the name has. A second call with the same record
	// changes nothing. Errors that wrap errNotAdded say that the zone is unchanged.
	Add(context.Context, Record) error
	// Remove removes a record, and no other one. It returns nil if there is none.
	Remove(context.Context, Record) error
}

// errNotAdded says that a provider has refused to add a record: nothing must be removed.
var errNotAdded = errors.New("no record was added")

// Record is the TXT record that answers a challenge.
type Record struct {
	Name  string // absolute, with a dot at the end, and after all CNAME records
	Value string

	// Domain, Token and KeyAuth are those of the challenge, from which lego's providers
	// compute the others.
	Domain, Token, KeyAuth string
}

// ttl is the lifetime of records in caches, in seconds: the least that Cloudflare takes.
const ttl = 60

// Redacted returns a provider whose errors show none of the secrets.
func Redacted(p Provider, secrets []string) Provider {
	var pairs []string
	for _, secret := range secrets {
		pairs = append(pairs, secret, "[redacted]")
	}
	return redacted{p, strings.NewReplacer(pairs...)}
}

type redacted struct {
	Provider
	replacer *strings.Replacer
}

// Add implements Provider.
func (r redacted) Add(ctx context.Context, record Record) error {
	return r.redact(r.Provider.Add(ctx, record))
}

// Remove implements Provider.
func (r redacted) Remove(ctx context.Context, record Record) error {
	return r.redact(r.Provider.Remove(ctx, record))
}

// redact keeps of an error its text without secrets, on one line, and errNotAdded.
func (r redacted) redact(err error) error {
	if err == nil {
		return nil
	}
	text := strings.Join(strings.Fields(r.replacer.Replace(err.Error())), " ")
	return redactedError{text, errors.Is(err, errNotAdded)}
}

type redactedError struct {
	text     string
	notAdded bool
}

func (e redactedError) Error() string { return e.text }

// Is implements the interface of errors.Is.
func (e redactedError) Is(target error) bool { return target == errNotAdded && e.notAdded }
