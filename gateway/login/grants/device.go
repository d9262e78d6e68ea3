package grants

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"authgate/gateway/people/factors"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
	"authgate/policy"
)

const (
	// pollInterval is how long a device waits between two questions, and by how much that
	// grows when it asks too early (RFC 8628, section 3.5). pollSlack is how much too early
	// the network may make it seem.
	pollInterval = 5 * time.Second
	pollSlack    = 500 * time.Millisecond
	// expiredKept is how long a device is told that its code has expired, whatever the lifetime of codes:
	// it may have waited for its user. Later the code is unknown.
	expiredKept = time.Hour
	// userLetters are the letters of user codes (RFC 8628, section 6.1).
	userLetters = "BCDFGHJKLMNPQRSTVWXZ"
	// userCodeTries is how often a user code is chosen that is not in use.
	userCodeTries = 10
)

// Devices keeps the devices that ask for tokens, until they get them from Grants.
type Devices struct {
	grants   *Grants
	store    store.Store
	now      func() time.Time
	lifetime time.Duration // of device codes
}

// NewDevices returns the devices in the store of g. lifetime is that of device codes.
func NewDevices(g *Grants, lifetime time.Duration) *Devices {
	return &Devices{g, g.options.Store, g.options.Now, lifetime}
}

// device is the record of a device that asks for tokens.
type device struct {
	Terms    Terms         `json:"terms"`
	UserCode string        `json:"user_code"` // key of its record
	Denied   bool          `json:"denied,omitempty"`
	By       *lender       `json:"by,omitempty"` // who has allowed it
	Interval time.Duration `json:"interval"`
	Polled   time.Time     `json:"polled,omitzero"`
	Expires  time.Time     `json:"expires"`
}

// edited returns the change of the record. It stays for a while after it has expired, so that
// the device learns why it gets nothing.
func (d *device) edited() (store.Edit, error) {
	return record.Edited(d, d.Expires.Add(expiredKept))
}

// newUserCode returns eight letters.
func newUserCode() string {
	code, one := make([]byte, 0, 8), make([]byte, 1)
	for len(code) < 8 {
		rand.Read(one)                         // never fails: crypto/rand
		if int(one[0]) < 12*len(userLetters) { // so that no letter is more likely
			code = append(code, userLetters[int(one[0])%len(userLetters)])
		}
	}
	return string(code)
}

// userCodeKey returns the store key of a user code as people type it. ok reports whether it
// can be one.
func userCodeKey(typed string) (key string, ok bool) {
	code := factors.TypedCode(typed)
	if len(code) != 8 || strings.Trim(code, userLetters) != "" {
		return "", false
	}
	return userCodePrefix + record.Hash([]byte(code)), true
}

func deviceKey(deviceCode string) string { return devicePrefix + record.Hash([]byte(deviceCode)) }

// New returns the codes of a device that asks for tokens (RFC 8628, section 3.2). The
// user code has eight letters with a hyphen in the middle (RFC 8628, section 6.1).
func (d *Devices) New(ctx context.Context, t Terms) (deviceCode, userCode string, err error) {
	deviceCode = newSecret(deviceMark).String()
	made := &device{Terms: t, Interval: pollInterval, Expires: d.now().Add(d.lifetime)}
	for range userCodeTries {
		userCode = newUserCode()
		made.UserCode, _ = userCodeKey(userCode)
		err = d.store.Swap(ctx, made.UserCode, nil, []byte(deviceKey(deviceCode)), made.Expires)
		if !errors.Is(err, store.ErrConflict) {
			break
		}
	}
	if err == nil {
		var edit store.Edit
		if edit, err = made.edited(); err == nil {
			err = d.store.Put(ctx, deviceKey(deviceCode), edit.Value, edit.Expires)
		}
	}
	if err != nil {
		return "", "", fmt.Errorf("recording a device: %w", err)
	}
	return deviceCode, userCode[:4] + "-" + userCode[4:], nil
}

// Find returns the terms that a device asks for under a user code. The error is ErrNoDevice if no
// device waits under it.
func (d *Devices) Find(ctx context.Context, userCode string) (*Terms, error) {
	key, err := d.waiting(ctx, userCode)
	if err != nil {
		return nil, err
	}
	raw, err := record.Find(ctx, d.store, key)
	if err != nil {
		return nil, err
	}
	waits, err := d.undecided(raw)
	if err != nil {
		return nil, err
	}
	return &waits.Terms, nil
}

// waiting returns the key of the device that waits under a user code.
func (d *Devices) waiting(ctx context.Context, userCode string) (string, error) {
	key, ok := userCodeKey(userCode)
	if !ok {
		return "", ErrNoDevice
	}
	raw, err := record.Find(ctx, d.store, key)
	if err == nil && raw == nil {
		err = ErrNoDevice
	}
	return string(raw), err
}

// undecided decodes the record of a device that waits for a decision.
func (d *Devices) undecided(raw []byte) (*device, error) {
	if raw == nil {
		return nil, ErrNoDevice
	}
	waits, err := record.Decode[device](raw)
	if err != nil {
		return nil, err
	}
	if waits.Denied || waits.By != nil || !d.now().Before(waits.Expires) {
		return nil, ErrNoDevice
	}
	return waits, nil
}

// Decide allows a device to act for the user of id, whose login lends the grant, or
// denies it if id is nil. A device is decided about once. The error is ErrNoDevice if none
// waits, and ErrNoConsent without the consent of the user.
func (d *Devices) Decide(ctx context.Context, userCode string, id *policy.Identity) error {
	key, err := d.waiting(ctx, userCode)
	if err != nil {
		return err
	}
	var decided *device
	err = store.Update(ctx, d.store, key, func(raw []byte) (store.Edit, error) {
		var err error
		if decided, err = d.undecided(raw); err != nil {
			return store.Edit{}, err
		}
		if decided.Denied = id == nil; id != nil {
			if decided.By, err = d.grants.newLender(ctx, id, &decided.Terms); err != nil {
				return store.Edit{}, err
			}
		}
		return decided.edited()
	})
	if err != nil {
		return fmt.Errorf("deciding about a device: %w", err)
	}
	_ = d.store.Delete(ctx, decided.UserCode) // what remains finds no device that waits
	return nil
}

// Poll returns the tokens of a device that was allowed, once. check compares the client; its
// error is returned, and consumes nothing. The error is ErrPending, ErrSlowDown, ErrDenied,
// ErrExpired or ErrInvalid if there are none.
func (d *Devices) Poll(ctx context.Context, deviceCode string, check func(*Terms) error) (*Issued, error) {
	if _, ok := parse(deviceMark, deviceCode); !ok {
		return nil, ErrNeverIssued
	}
	key := deviceKey(deviceCode)
	var answer error
	federation := ""
	err := store.Update(ctx, d.store, key, func(raw []byte) (edit store.Edit, err error) {
		if raw == nil {
			return store.Edit{}, invalid("the device code is unknown or was used")
		}
		known, err := record.Decode[device](raw)
		if err != nil {
			return store.Edit{}, err
		}
		asked := known.Terms
		asked.Scopes = slices.Clone(asked.Scopes)
		if err := check(&asked); err != nil {
			return store.Edit{}, err
		}
		federation = asked.Federation
		if answer = known.poll(d.now()); answer == nil || answer == ErrExpired || answer == ErrDenied {
			return store.Edit{}, nil
		}
		return known.edited()
	})
	if err == nil {
		err = answer
	}
	if err != nil {
		return nil, err
	}
	return d.redeem(ctx, key, federation)
}

// poll returns the error for a device that asks at now, nil for tokens.
func (d *device) poll(now time.Time) error {
	switch {
	case !now.Before(d.Expires):
		return ErrExpired
	case d.Denied:
		return ErrDenied
	case d.By != nil:
		return nil
	}
	early := !d.Polled.IsZero() && now.Sub(d.Polled).Abs() < d.Interval-pollSlack
	d.Polled = now
	if early {
		d.Interval += pollInterval
		return ErrSlowDown
	}
	return ErrPending
}

// redeem makes the grant of a device that was allowed, whose client proved itself by an entry of its federation,
// if that is not empty.
func (d *Devices) redeem(ctx context.Context, key, federation string) (*Issued, error) {
	raw, err := record.Find(ctx, d.store, key)
	if err == nil && raw == nil {
		err = invalid("the device code was used")
	}
	if err != nil {
		return nil, err
	}
	known, err := record.Decode[device](raw)
	if err != nil {
		return nil, err
	}
	by, err := d.grants.findLender(ctx, known.By, d.now())
	if err == nil {
		err = d.grants.admits(known.Terms.Client, by.identity)
	}
	if err != nil {
		return nil, err
	}
	if _, err := d.store.Take(ctx, key); errors.Is(err, store.ErrNotFound) {
		return nil, invalid("the device code was used")
	} else if err != nil {
		return nil, fmt.Errorf("redeeming a device code: %w", err)
	}
	now := d.now()
	if err := known.poll(now); err != nil {
		return nil, err
	}
	s := newSecret(refreshMark)
	known.Terms.Federation = federation
	made, refresh := (&grant{lender: *known.By, Code: Code{Terms: known.Terms}}).asRedeemed(s, now)
	value, err := json.Marshal(made)
	if err != nil {
		return nil, fmt.Errorf("recording a grant: %w", err)
	}
	return d.grants.beginGrant(ctx, by, s, made, value, refresh)
}
