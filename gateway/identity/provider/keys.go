package provider

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"authgate/gateway/wire/jose"
)

const (
	keysFresh    = 10 * time.Minute // then they are renewed, and the old ones are used meanwhile
	keysLifetime = time.Hour        // then they are no longer used
	keysBurst    = 3                // fetches without a pause
	keysInterval = 10 * time.Second // between further fetches
)

// keySet is the published keys of an issuer. They are fetched when they are first
// needed, when they are old, and when a token names an unknown key. Any client can
// cause the last, so the rate of fetches is limited. RemoteKeySet of go-oidc has
// neither this limit nor an age.
type keySet struct {
	issuer   *issuer
	cached   cached[*jose.PublicKeys]
	limiter  *rate.Limiter
	renewing atomic.Bool
}

// errKeysRest: the keys were fetched a moment ago, so an unknown key may be new.
var errKeysRest = errors.New("the keys are not fetched again so soon")

func (i *issuer) newKeySet(address string) *keySet {
	k := &keySet{issuer: i, limiter: rate.NewLimiter(rate.Every(keysInterval), keysBurst)}
	k.cached.now, k.cached.background = i.now, i.background
	k.cached.permitted = func() bool { return k.limiter.AllowN(i.now(), 1) }
	k.cached.fetch = func(ctx context.Context) (*jose.PublicKeys, error) { return i.fetchKeys(ctx, address) }
	return k
}

// findKey returns the key that a header names. An *Error means that the keys cannot be
// fetched, any other error that the token is not valid.
func (k *keySet) findKey(ctx context.Context, h header) (crypto.PublicKey, error) {
	known, now := k.cached.state(), k.issuer.now()
	seen := known.tries
	if !h.isIn(known.value) || now.Sub(known.fetched) > keysLifetime {
		var err error
		if known, err = k.cached.renew(ctx, known.tries); err != nil {
			return nil, k.issuer.client.fail("keys", err)
		}
		if known.err != nil {
			return nil, known.err
		}
		if now.Sub(known.fetched) > keysLifetime {
			return nil, k.issuer.client.fail("keys",
				errors.New("the keys are too old, and cannot be fetched again so soon"))
		}
	} else if now.Sub(known.fetched) > keysFresh {
		k.renew(known.tries)
	}
	key, err := h.findKey(known.value)
	if err != nil && known.tries == seen && !h.isIn(known.value) {
		err = fmt.Errorf("%w: %w", errKeysRest, err)
	}
	return key, err
}

// verify checks the signature of a token with that key. If the token has no kid, the only key may be
// another one by now. An *Error means that the keys cannot be fetched.
func (k *keySet) verify(ctx context.Context, token *jose.Token, h header) error {
	seen := k.cached.state().tries
	key, err := k.findKey(ctx, h)
	if err != nil {
		return err
	}
	if err = token.Verify(h.algorithm, key); err != nil && h.keyID == "" {
		known, late := k.cached.renew(ctx, seen)
		switch {
		case late != nil:
			return k.issuer.client.fail("keys", late)
		case known.tries > seen && known.err != nil:
			return known.err
		}
		if key, err = h.findKey(known.value); err == nil {
			err = token.Verify(h.algorithm, key)
		}
	}
	if err != nil {
		return fmt.Errorf("the signature does not verify: %w", err)
	}
	return nil
}

// isIn reports whether the key of a header is among keys: that with its kid, or else the only one.
func (h header) isIn(keys *jose.PublicKeys) bool {
	return keys.Has(h.keyID) || h.keyID == "" && keys.Count() == 1
}

// findKey returns that key.
func (h header) findKey(keys *jose.PublicKeys) (crypto.PublicKey, error) {
	switch {
	case h.keyID != "":
		return keys.Find(h.keyID, h.algorithm)
	case keys.Count() > 1:
		return nil, errors.New("the header has no kid, and several keys are published")
	}
	return keys.Only(h.algorithm)
}

// renew fetches the keys in the background.
func (k *keySet) renew(seen int) {
	if !k.renewing.CompareAndSwap(false, true) {
		return
	}
	k.issuer.background.start(func(ctx context.Context) {
		defer k.renewing.Store(false)
		if known, _ := k.cached.renew(ctx, seen); known.tries > seen && known.err != nil {
			k.issuer.logger.Warn("fetching the provider's keys failed; the cached keys are used for up to an hour",
				"error", known.err)
		}
	})
}

// fetchKeys fetches a JWK Set (RFC 7517, section 5).
func (i *issuer) fetchKeys(ctx context.Context, address string) (*jose.PublicKeys, error) {
	r, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return nil, i.client.fail("keys", err)
	}
	r.Header.Set("Accept", jose.KeySetTypes)
	r.Header.Set("Cache-Control", "no-cache")
	got, err := i.client.send(ctx, "keys", r)
	if err != nil {
		return nil, err
	}
	keys, err := jose.ParsePublicKeys(got.body)
	if err != nil {
		return nil, i.client.fail("keys", fmt.Errorf("the key set: %w", err))
	}
	return keys, nil
}
