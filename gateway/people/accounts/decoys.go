package accounts

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
	"sync/atomic"

	"authgate/gateway/people/password"
	"authgate/gateway/store"
)

// decoyKeyRecord is the store key of the DecoyKey. The record never expires.
const decoyKeyRecord = "decoys"

// DecoyKey decides the cost of unknown user names where the password hashes of accounts differ in
// cost. An account always has the cost of its hash. A name whose cost is another one on another
// instance, after a restart or after a reload is therefore no account. So the key must be the same
// everywhere and for ever. It is made from a secret that is kept, and the store keeps it when that
// secret changes.
type DecoyKey struct {
	key atomic.Pointer[[sha256.Size]byte]
}

// NewDecoyKey returns the key for a secret.
func NewDecoyKey(secret []byte) *DecoyKey {
	k := new(DecoyKey)
	key := sha256.Sum256(secret)
	k.key.Store(&key)
	return k
}

// Share takes over the key in s. If there is none, it keeps this one there.
func (k *DecoyKey) Share(ctx context.Context, s store.Store) error {
	current := k.key.Load()
	kept := current[:]
	err := store.Update(ctx, s, decoyKeyRecord, func(raw []byte) (store.Edit, error) {
		if raw == nil {
			return store.Edit{Value: current[:]}, nil
		}
		kept = raw
		return store.Edit{}, nil
	})
	switch {
	case err != nil:
		return err
	case len(kept) != len(current):
		return errors.New("reading the key of the decoys: the record in the store is damaged")
	case !bytes.Equal(kept, current[:]):
		k.key.Store((*[sha256.Size]byte)(slices.Clone(kept)))
	}
	return nil
}

// rank returns a number above 0 for a name and a cost, exponentially distributed with
// mean 1. It tells nothing about the number of another name.
func (k *DecoyKey) rank(username, cost string) float64 {
	mac := hmac.New(sha256.New, k.key.Load()[:])
	mac.Write([]byte(cost + "\x00" + username))
	// 53 bits, as many as a float64 holds; at least half a step above 0 and below 1.
	bits := binary.BigEndian.Uint64(mac.Sum(nil)) >> 11
	return -math.Log((float64(bits) + 0.5) / (1 << 53))
}

// decoys are the hashes for unknown names.
type decoys struct {
	key *DecoyKey
	all []decoy // one for each cost
}

// decoy is a hash that matches no password, and costs as much as the hashes of some accounts.
type decoy struct {
	cost     string
	accounts float64 // how many
	hash     password.Hash
}

func newDecoys(key *DecoyKey, users []Account) decoys {
	byCost := map[string]*decoy{}
	for i := range users {
		hash := &users[i].Hash
		if !users[i].HasPassword() {
			continue
		}
		cost := hash.Cost()
		if byCost[cost] == nil {
			byCost[cost] = &decoy{cost: cost, hash: hash.Decoy()}
		}
		byCost[cost].accounts++
	}
	d := decoys{key: key}
	if len(byCost) == 0 {
		hash := password.Unmatched()
		d.all = []decoy{{cost: hash.Cost(), accounts: 1, hash: hash}}
	}
	for _, cost := range slices.Sorted(maps.Keys(byCost)) {
		d.all = append(d.all, *byCost[cost])
	}
	return d
}

// of returns the decoy of an unknown name. The costs of unknown names are distributed
// like those of the accounts. If there are more accounts of one cost than before, some
// names move to that cost, and no other name moves: each cost draws a number for the
// name, the more accounts the smaller, and the smallest number wins.
func (d *decoys) of(username string) password.Hash {
	if len(d.all) == 1 {
		return d.all[0].hash
	}
	best := slices.MinFunc(d.all, func(a, b decoy) int {
		return cmp.Compare(d.key.rank(username, a.cost)/a.accounts, d.key.rank(username, b.cost)/b.accounts)
	})
	return best.hash
}
