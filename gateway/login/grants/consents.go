package grants

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"authgate/gateway/login"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
)

const (
	// maxConsents is how many clients a user can have. The consent for the oldest one ends
	// when one more comes.
	maxConsents = 256
	// consentLifetime is how long the consents of a user hold after the last one.
	consentLifetime = 400 * 24 * time.Hour
	// consentRenewal is how old the record may become before a consent that changes nothing
	// writes it.
	consentRenewal = 30 * 24 * time.Hour
)

// Consents keeps the consents of users. A grant needs a consent, and ends with it. A consent ends with
// the account, as API tokens do: when it is removed or disabled, or gets another password. A later
// account of that name has none.
type Consents struct {
	store   store.Store
	now     func() time.Time
	holders *login.Holders
}

// NewConsents returns the consents in a store. now is its clock; see store.ClockOf.
func NewConsents(s store.Store, now func() time.Time, holders *login.Holders) *Consents {
	return &Consents{s, now, holders}
}

// Consent is the consent of a user for one client.
type Consent struct {
	Client    string              `json:"client"`
	Name      string              `json:"name,omitempty"`
	Resources map[string][]string `json:"resources"` // scopes by resource
	Since     time.Time           `json:"since"`
}

// consent is a Consent in the record. Grants name its ID, so that a later consent for the same
// client does not bring them back.
type consent struct {
	ID string `json:"id"`
	// Vouched: the user's provider has consented in the place of the user. That is no consent to
	// the client's own requests.
	Vouched bool `json:"vouched,omitempty"`
	Consent
}

// consented is the record of a user's consents. One record has all of them, so that one write
// withdraws one.
type consented struct {
	Subject string    `json:"sub"`
	Issuer  string    `json:"iss,omitempty"` // of the provider; empty: a local account, or an older record
	Written time.Time `json:"written"`
	All     []consent `json:"all"`
	// Ended tells when the access of a client ended, that of all clients under "". Assertions of a
	// provider from before give none again.
	Ended map[string]time.Time `json:"ended,omitempty"`
}

func consentsKey(subject string) string { return consentsPrefix + record.Hash([]byte(subject)) }

// of returns the consent of the user for a client, nil if there is none.
func (c *consented) of(client string) *consent { return c.consentFor(client, false) }

// consentFor returns the consent for a client of the user, or of the user's provider.
func (c *consented) consentFor(client string, vouched bool) *consent {
	at := slices.IndexFunc(c.All, func(one consent) bool { return one.Client == client && one.Vouched == vouched })
	if at < 0 {
		return nil
	}
	return &c.All[at]
}

// hold reports whether the consent with that ID was not withdrawn.
func (c *consented) hold(id string) bool {
	return slices.ContainsFunc(c.All, func(one consent) bool { return one.ID == id })
}

// covers reports whether the consent has all of the scopes for a resource.
func (c *consent) covers(resource string, scopes []string) bool {
	held, ok := c.Resources[resource]
	return ok && !slices.ContainsFunc(scopes, func(scope string) bool { return !slices.Contains(held, scope) })
}

// consentsOf returns the consents of a subject, also those of an earlier user of its name, and the
// record that they are from.
func consentsOf(ctx context.Context, s store.Store, subject string) (*consented, []byte, error) {
	raw, err := record.Find(ctx, s, consentsKey(subject))
	if err != nil {
		return nil, nil, err
	}
	known, err := decodeConsents(subject, raw)
	return known, raw, err
}

// keepCurrent removes the consents of an earlier owner of the subject.
func (c *consented) keepCurrent(holders *login.Holders) {
	since, issuer, ok := holders.Tenure(c.Subject)
	if !ok || c.Issuer != "" && c.Issuer != issuer {
		c.All = nil
	}
	c.Issuer = issuer
	c.All = slices.DeleteFunc(c.All, func(one consent) bool { return one.Since.Before(since) })
}

// of returns the consents of the user who has the subject now.
func (c *Consents) of(ctx context.Context, subject string) (*consented, error) {
	known, _, err := consentsOf(ctx, c.store, subject)
	if err == nil {
		known.keepCurrent(c.holders)
	}
	return known, err
}

// decodeConsents decodes the consents of a user, and no record as none.
func decodeConsents(subject string, raw []byte) (*consented, error) {
	if raw == nil {
		return &consented{Subject: subject}, nil
	}
	known, err := record.Decode[consented](raw)
	if err == nil && known.Subject != subject {
		err = errors.New("a record in the store is damaged: it is of another subject")
	}
	return known, err
}

// Given reports whether a user has consented to these scopes for a client.
func (c *Consents) Given(ctx context.Context, subject, client, resource string, scopes []string) (bool, error) {
	known, err := c.of(ctx, subject)
	if err != nil {
		return false, err
	}
	one := known.of(client)
	return one != nil && one.covers(resource, scopes), nil
}

// Has reports whether a user has consented to anything that a client has asked for.
func (c *Consents) Has(ctx context.Context, subject, client string) (bool, error) {
	known, err := c.of(ctx, subject)
	return err == nil && known.of(client) != nil, err
}

// Give records that a user consents to these scopes for a client, and leaves earlier consents. It
// is also needed for clients that users are not asked about.
func (c *Consents) Give(ctx context.Context, subject, client, name, resource string, scopes []string) error {
	err := store.Update(ctx, c.store, consentsKey(subject), func(raw []byte) (store.Edit, error) {
		known, err := decodeConsents(subject, raw)
		if err != nil {
			return store.Edit{}, err
		}
		known.keepCurrent(c.holders)
		now := c.now()
		if !known.add(known.of(client), consent{Consent: Consent{Client: client, Name: name}}, resource, scopes, now) {
			return store.Edit{}, nil
		}
		known.Written = now
		return record.Edited(known, now.Add(consentLifetime))
	})
	if err != nil {
		err = fmt.Errorf("recording a consent: %w", err)
	}
	return err
}

// add adds scopes to a consent, or to made if it is nil. It reports whether the record must be written.
func (c *consented) add(one *consent, made consent, resource string, scopes []string, now time.Time) bool {
	name := made.Name
	if one == nil {
		made.ID, made.Resources, made.Since = rand.Text(), map[string][]string{}, now
		c.All = append(c.All, made)
		c.All = c.All[max(0, len(c.All)-maxConsents):]
		one = &c.All[len(c.All)-1]
	}
	if one.Name == name && one.covers(resource, scopes) && now.Sub(c.Written).Abs() < consentRenewal {
		return false
	}
	one.Name = name
	held := append([]string{}, one.Resources[resource]...)
	for _, scope := range scopes {
		if !slices.Contains(held, scope) {
			held = append(held, scope)
		}
	}
	one.Resources[resource] = held
	return true
}

// add adds the scopes of another consent for the same client.
func (c *Consent) add(resources map[string][]string) {
	for resource, scopes := range resources {
		all := slices.Concat(c.Resources[resource], scopes)
		slices.Sort(all)
		c.Resources[resource] = slices.Compact(all)
	}
}

// List returns the consents of a user, the oldest first.
func (c *Consents) List(ctx context.Context, subject string) ([]Consent, error) {
	known, err := c.of(ctx, subject)
	if err != nil {
		return nil, err
	}
	var all []Consent
	for i := range known.All {
		one := known.All[i].Consent
		one.Resources = maps.Clone(one.Resources)
		if at := slices.IndexFunc(all, func(c Consent) bool { return c.Client == one.Client }); at >= 0 {
			all[at].add(one.Resources)
			continue
		}
		all = append(all, one)
	}
	return all, nil
}

// Withdraw ends the consent of a user for a client, and with it all codes and tokens that the
// client got by it. It reports whether there was one.
func (c *Consents) Withdraw(ctx context.Context, subject, client string) (found bool, err error) {
	err = store.Update(store.Ending(ctx), c.store, consentsKey(subject), func(raw []byte) (store.Edit, error) {
		known, err := decodeConsents(subject, raw)
		if err != nil {
			return store.Edit{}, err
		}
		if found = known.of(client) != nil || known.consentFor(client, true) != nil; !found {
			return store.Edit{}, nil
		}
		known.All = slices.DeleteFunc(known.All, func(one consent) bool { return one.Client == client })
		now := c.now()
		known.recordEnd(client, now)
		known.Written = now
		return record.Edited(known, now.Add(consentLifetime))
	})
	if err != nil {
		return false, fmt.Errorf("withdrawing a consent: %w", err)
	}
	return found, nil
}

// endedMemory is how long it is known that an access has ended. No assertion lives longer.
const endedMemory = 2 * time.Hour

// recordEnd records that the access of a client, "" for all, ends now.
func (c *consented) recordEnd(client string, now time.Time) {
	maps.DeleteFunc(c.Ended, func(_ string, at time.Time) bool { return now.Sub(at) > endedMemory })
	if c.Ended == nil {
		c.Ended = map[string]time.Time{}
	}
	c.Ended[client] = now
}

// vouch records that the provider of a user has consented to terms by an assertion, and returns the ID of
// the consent. The error is ErrInvalid if the access has ended since the assertion was issued.
func (c *Consents) vouch(ctx context.Context, subject, name string, t *Terms, issued time.Time) (id string, err error) {
	err = store.Update(ctx, c.store, consentsKey(subject), func(raw []byte) (store.Edit, error) {
		known, err := decodeConsents(subject, raw)
		if err != nil {
			return store.Edit{}, err
		}
		known.keepCurrent(c.holders)
		for _, client := range []string{"", t.Client} {
			if at, ok := known.Ended[client]; ok && !issued.After(at.Truncate(time.Second)) {
				return store.Edit{}, invalid("the assertion is from before the access of the client ended")
			}
		}
		now := c.now()
		made := consent{Vouched: true, Consent: Consent{Client: t.Client, Name: name}}
		changed := known.add(known.consentFor(t.Client, true), made, t.Resource, t.Scopes, now)
		id = known.consentFor(t.Client, true).ID
		if !changed {
			return store.Edit{}, nil
		}
		known.Written = now
		return record.Edited(known, now.Add(consentLifetime))
	})
	if err != nil && !errors.Is(err, ErrInvalid) {
		err = fmt.Errorf("recording a consent: %w", err)
	}
	return id, err
}

// EndVouchedOf ends the access of clients by the word of a provider for the user with that subject.
// It returns at how many clients.
func (c *Consents) EndVouchedOf(ctx context.Context, subject string) (ended int, err error) {
	err = store.Update(store.Ending(ctx), c.store, consentsKey(subject), func(raw []byte) (store.Edit, error) {
		known, err := decodeConsents(subject, raw)
		if err != nil {
			return store.Edit{}, err
		}
		before := len(known.All)
		known.All = slices.DeleteFunc(known.All, func(one consent) bool { return one.Vouched })
		ended = before - len(known.All)
		now, lifetime := c.now(), consentLifetime
		if len(known.All) == 0 {
			lifetime = endedMemory
		}
		known.recordEnd("", now)
		known.Written = now
		return record.Edited(known, now.Add(lifetime))
	})
	if err != nil {
		return 0, fmt.Errorf("ending the access of clients: %w", err)
	}
	return ended, nil
}
