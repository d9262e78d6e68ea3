package provider

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/time/rate"
)

const (
	keysFresh    = 10 * time.Minute // then they are renewed, and the old ones are used meanwhile
	keysLifetime = time.Hour        // then they are no longer used
	keysBurst    = 3                // fetches without a pause
	keysInterval = 10 * time.Second // between further fetches
	minRSABits   = 2048             // RFC 7518, section 3.3
)

// keySet is the published keys of an issuer. They are fetched when they are first
// needed, when they are old, and when a token names an unknown key. Any client can
// cause the last, so the rate of fetches is limited. RemoteKeySet of go-oidc has
// neither this limit nor an age.
type keySet struct {
	issuer   *issuer
	cached   cached[map[string]publicKey] // by kid
	limiter  *rate.Limiter
	renewing atomic.Bool
}

// errKeysRest: the keys were fetched a moment ago, so an unknown key may be new.
var errKeysRest = errors.New("the keys are not fetched again so soon")

// publicKey is one key of a set.
type publicKey struct {
	key       crypto.PublicKey // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
	algorithm string           // the only one that it may be used with; empty: any that fits
	flaw      error            // why it must not be used
}

func (i *issuer) newKeySet(address string) *keySet {
	k := &keySet{issuer: i, limiter: rate.NewLimiter(rate.Every(keysInterval), keysBurst)}
	k.cached.now, k.cached.background = i.now, i.background
	k.cached.permitted = func() bool { return k.limiter.AllowN(i.now(), 1) }
	k.cached.fetch = func(ctx context.Context) (map[string]publicKey, error) { return i.fetchKeys(ctx, address) }
	return k
}

// find returns the key that a header names. An *Error means that the keys cannot be
// fetched, any other error that the token is not valid.
func (k *keySet) find(ctx context.Context, h header) (crypto.PublicKey, error) {
	known, now := k.cached.state(), k.issuer.now()
	seen := known.tries
	if _, ok := known.value[h.keyID]; !ok || now.Sub(known.fetched) > keysLifetime {
		var err error
		if known, err = k.cached.renew(ctx, known.tries); err != nil {
			return nil, k.issuer.client.fail("keys", err)
		}
		if known.err != nil {
			return nil, known.err
		}
		if now.Sub(known.fetched) > keysLifetime {
			return nil, k.issuer.client.fail("keys", errors.New("the keys are too old, and cannot be fetched again so soon"))
		}
	} else if now.Sub(known.fetched) > keysFresh {
		k.renew(known.tries)
	}
	found, ok := known.value[h.keyID]
	switch {
	case !ok && known.tries == seen:
		return nil, fmt.Errorf("%w; the issuer had published no key with the kid %q", errKeysRest, h.keyID)
	case !ok:
		return nil, fmt.Errorf("the issuer has published no key with the kid %q", h.keyID)
	case found.flaw != nil:
		return nil, fmt.Errorf("the key %q: %w", h.keyID, found.flaw)
	case found.algorithm != "" && found.algorithm != h.algorithm, !fits(found.key, h.algorithm):
		return nil, fmt.Errorf("the key %q is not for the algorithm %s", h.keyID, h.algorithm)
	}
	return found.key, nil
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
func (i *issuer) fetchKeys(ctx context.Context, address string) (map[string]publicKey, error) {
	r, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return nil, i.client.fail("keys", err)
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Cache-Control", "no-cache")
	got, err := i.client.send(ctx, "keys", r)
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(got.body)
	if err != nil {
		return nil, i.client.fail("keys", fmt.Errorf("the key set: %w", err))
	}
	return keys, nil
}

// parseKeys returns the keys for signatures, by kid. It ignores keys for encryption,
// without a kid, and of unknown kinds (RFC 7517, section 5). Keys that share a kid
// must not be used.
func parseKeys(raw []byte) (map[string]publicKey, error) {
	set, err := decodeClaims(raw)
	if err != nil {
		return nil, err
	}
	members, ok := set["keys"].([]any)
	if !ok {
		return nil, errors.New("the member keys is missing, or no array")
	}
	keys := map[string]publicKey{}
	for _, member := range members {
		object, _ := member.(map[string]any)
		key := claims(object)
		id, _ := key["kid"].(string)
		if use, _ := key["use"].(string); id == "" || use != "" && use != "sig" {
			continue
		}
		if _, twice := keys[id]; twice {
			keys[id] = publicKey{flaw: errors.New("two keys of the set have this kid")}
			continue
		}
		var public publicKey
		public.algorithm, _ = key["alg"].(string)
		public.key, public.flaw = key.publicKey()
		keys[id] = public
	}
	return keys, nil
}

// Members of a key: those that make a public one, and those that must not be published
// (RFC 7518, section 6).
var (
	publicMembers = []string{"kty", "crv", "x", "y", "n", "e"}
	secretMembers = []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"}
)

// publicKey makes a key of its members. It looks at no others, such as certificates,
// because nothing depends on them.
func (c claims) publicKey() (crypto.PublicKey, error) {
	const notPublic = "is no public RSA, EC or Ed25519 key"
	for _, name := range secretMembers {
		if _, ok := c[name]; ok {
			return nil, errors.New(notPublic)
		}
	}
	members := claims{}
	for _, name := range publicMembers {
		if value, ok := c.present(name); ok {
			members[name] = value
		}
	}
	raw, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	var key jose.JSONWebKey
	if err := json.Unmarshal(raw, &key); err != nil {
		return nil, err
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		if public.N.BitLen() < minRSABits {
			return nil, fmt.Errorf("has %d bits, and at least %d are needed", public.N.BitLen(), minRSABits)
		}
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return nil, errors.New(notPublic)
	}
	return key.Key, nil
}

// fits reports whether the key is of the kind that the algorithm needs (RFC 7518,
// section 3.1; RFC 8037, section 3.1).
func fits(key crypto.PublicKey, algorithm string) bool {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		return algorithm == map[string]string{"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}[key.Params().Name]
	case ed25519.PublicKey:
		return algorithm == "EdDSA"
	}
	return false
}
