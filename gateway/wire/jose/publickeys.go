package jose

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"authgate/gateway/wire/strictjson"
)

const minRSABits = 2048 // RFC 7518, section 3.3

// KeySetTypes is Accept for JWK Sets. Kubernetes sends them as the first type alone (RFC 7517, section 8.5.2), and
// others as JSON.
const KeySetTypes = "application/jwk-set+json, application/json"

// PublicKeys are the keys that another party has published (RFC 7517, section 5).
type PublicKeys struct {
	named    map[string]publicKey // by kid
	nameless []publicKey
}

// publicKey is one key of a set.
type publicKey struct {
	key       crypto.PublicKey // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
	algorithm string           // the only one that it may be used with; empty: any that fits
	flaw      error            // why it must not be used
}

// ParsePublicKeys reads a JWK Set. It ignores keys for encryption. Keys that share a kid, and
// those of unknown kinds, must not be used.
func ParsePublicKeys(raw []byte) (*PublicKeys, error) {
	set, err := strictjson.Object(raw)
	if err != nil {
		return nil, err
	}
	members, ok := set["keys"].([]any)
	if !ok {
		return nil, errors.New("the member keys is missing, or no array")
	}
	keys := &PublicKeys{named: map[string]publicKey{}}
	for _, member := range members {
		key, _ := member.(map[string]any)
		keys.add(key)
	}
	return keys, nil
}

// add adds a key by its members.
func (k *PublicKeys) add(members map[string]any) {
	if use, _ := members["use"].(string); use != "" && use != "sig" {
		return
	}
	var public publicKey
	public.algorithm, _ = members["alg"].(string)
	public.key, public.flaw = publicKeyOf(members)
	id, _ := members["kid"].(string)
	if id == "" {
		k.nameless = append(k.nameless, public)
		return
	}
	if _, twice := k.named[id]; twice {
		public = publicKey{flaw: errors.New("two keys of the set have this kid")}
	}
	k.named[id] = public
}

// Serve returns nil if some key of the set may be used with one of those algorithms, and otherwise why
// the keys may not.
func (k *PublicKeys) Serve(algorithms ...string) error {
	why := errors.New("the set is empty")
	for _, key := range slices.Concat(slices.Collect(maps.Values(k.named)), k.nameless) {
		switch {
		case key.flaw != nil:
			why = fmt.Errorf("a key: %w", key.flaw)
		case slices.ContainsFunc(algorithms, key.serves):
			return nil
		default:
			why = fmt.Errorf("no key is for %s", strings.Join(algorithms, " or "))
		}
	}
	return why
}

// Has reports whether a key has the kid, also one that must not be used. Nil has none.
func (k *PublicKeys) Has(id string) bool {
	if k == nil {
		return false
	}
	_, ok := k.named[id]
	return ok
}

// Find returns the key with a kid for an algorithm. Which keys there are decides, and the
// header of a token only chooses among them.
func (k *PublicKeys) Find(id, algorithm string) (crypto.PublicKey, error) {
	if !k.Has(id) {
		return nil, fmt.Errorf("no key with the kid %q is published", id)
	}
	switch found := k.named[id]; {
	case found.flaw != nil:
		return nil, fmt.Errorf("the key %q: %w", id, found.flaw)
	case !found.serves(algorithm):
		return nil, fmt.Errorf("the key %q is not for the algorithm %s", id, algorithm)
	default:
		return found.key, nil
	}
}

// Count returns how many keys may be used. Nil has none.
func (k *PublicKeys) Count() (usable int) {
	if k == nil {
		return 0
	}
	for _, key := range k.nameless {
		if key.flaw == nil {
			usable++
		}
	}
	for _, key := range k.named {
		if key.flaw == nil {
			usable++
		}
	}
	return usable
}

// Only returns the one key for an algorithm, for a token that names none.
func (k *PublicKeys) Only(algorithm string) (crypto.PublicKey, error) {
	var only crypto.PublicKey
	all := k.nameless
	for _, key := range k.named {
		all = append(all[:len(all):len(all)], key)
	}
	for _, key := range all {
		if key.flaw != nil || !key.serves(algorithm) {
			continue
		}
		if only != nil {
			return nil, fmt.Errorf("it names no key, and several are published for the algorithm %s", algorithm)
		}
		only = key.key
	}
	if only == nil {
		return nil, fmt.Errorf("no key is published for the algorithm %s", algorithm)
	}
	return only, nil
}

// Members of a key: those that make a public one, and those that must not be published
// (RFC 7518, section 6).
var (
	publicMembers = []string{"kty", "crv", "x", "y", "n", "e"}
	secretMembers = []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"}
)

// publicKeyOf makes a key of its members. It looks at no others, such as certificates,
// because nothing depends on them.
func publicKeyOf(all map[string]any) (crypto.PublicKey, error) {
	const notPublic = "is no public RSA, EC or Ed25519 key"
	for _, name := range secretMembers {
		if _, ok := all[name]; ok {
			return nil, fmt.Errorf("has the member %s of a private or symmetric key", name)
		}
	}
	members := map[string]any{}
	for _, name := range publicMembers {
		if value := all[name]; value != nil && value != "" {
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

// serves reports whether the key may be used with the algorithm, and is of the kind that
// this needs (RFC 7518, section 3.1; RFC 8037, section 3.1).
func (k *publicKey) serves(algorithm string) bool {
	if k.algorithm != "" && k.algorithm != algorithm {
		return false
	}
	switch key := k.key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		return algorithm == map[string]string{"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}[key.Params().Name]
	case ed25519.PublicKey:
		return algorithm == "EdDSA"
	}
	return false
}
