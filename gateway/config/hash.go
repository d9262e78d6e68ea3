package config

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	argon2Parameters = regexp.MustCompile(`^m=([1-9][0-9]{0,9}),t=([1-9][0-9]{0,9}),p=([1-9][0-9]{0,9})$`)
	bcryptHash       = regexp.MustCompile(`^\$2[aby]\$([0-9]{2})\$[./A-Za-z0-9]{53}$`)
)

// Bounds of the cost of a hash. Below it is no protection; above, each login
// costs more than a gateway can afford, and an address may try several.
const (
	maxArgon2Memory = 1 << 20 // KiB
	maxArgon2Time   = 64
	maxArgon2Lanes  = 64
	maxArgon2Bytes  = 1024 // of salt and hash
	minSaltBytes    = 8
	minHashBytes    = 16
	minBcryptCost   = 4
	maxBcryptCost   = 20
)

// checkPasswordHash says what is wrong with a password hash, by its form
// alone: an argon2id hash in the PHC string format, or a bcrypt one. The error
// does not repeat the hash.
func checkPasswordHash(hash string) error {
	switch {
	case strings.HasPrefix(hash, "$argon2id$"):
		return checkArgon2id(hash)
	case strings.HasPrefix(hash, "$2"):
		return checkBcrypt(hash)
	case hash == "":
		return fmt.Errorf("the hash is empty; make one with `authgate hash-password`")
	case strings.HasPrefix(hash, "$argon2"):
		return fmt.Errorf("the hash is of another kind of argon2; expected argon2id, as `authgate hash-password` makes it")
	case strings.HasPrefix(hash, "$apr1$"), strings.HasPrefix(hash, "{SHA}"),
		strings.HasPrefix(hash, "$1$"), strings.HasPrefix(hash, "$5$"), strings.HasPrefix(hash, "$6$"):
		return fmt.Errorf("the hash is of a kind that is not supported; expected argon2id or bcrypt, as `authgate hash-password` makes it")
	}
	return fmt.Errorf("not a password hash; expected argon2id or bcrypt, as `authgate hash-password` makes it")
}

// checkArgon2id checks $argon2id$v=19$m=…,t=…,p=…$SALT$HASH.
func checkArgon2id(hash string) error {
	parts := strings.Split(hash, "$")
	if len(parts) != 6 {
		return fmt.Errorf("the hash is cut short; expected $argon2id$v=19$m=…,t=…,p=…$SALT$HASH")
	}
	if parts[2] != "v=19" {
		return fmt.Errorf("the hash is of another version of argon2id; expected v=19")
	}
	found := argon2Parameters.FindStringSubmatch(parts[3])
	if found == nil {
		return fmt.Errorf("the hash has no parameters of the form m=…,t=…,p=…")
	}
	for i, limit := range []struct {
		name  string
		least int
		most  int
	}{
		{"m (memory in KiB)", 8, maxArgon2Memory}, {"t (passes)", 1, maxArgon2Time}, {"p (lanes)", 1, maxArgon2Lanes},
	} {
		if n, err := strconv.Atoi(found[i+1]); err != nil || n < limit.least || n > limit.most {
			return fmt.Errorf("the hash has the parameter %s = %s; expected %d to %d", limit.name, found[i+1], limit.least, limit.most)
		}
	}
	for i, field := range []struct {
		name  string
		least int
	}{{"salt", minSaltBytes}, {"hash", minHashBytes}} {
		raw, err := base64.RawStdEncoding.Strict().DecodeString(parts[4+i])
		if err != nil {
			return fmt.Errorf("the %s is not base64 without padding", field.name)
		}
		if len(raw) < field.least || len(raw) > maxArgon2Bytes {
			return fmt.Errorf("the %s has %d bytes; expected %d to %d", field.name, len(raw), field.least, maxArgon2Bytes)
		}
	}
	return nil
}

func checkBcrypt(hash string) error {
	found := bcryptHash.FindStringSubmatch(hash)
	if found == nil {
		return fmt.Errorf("the hash is not a whole bcrypt hash; expected $2y$COST$ and 53 characters")
	}
	if cost, _ := strconv.Atoi(found[1]); cost < minBcryptCost || cost > maxBcryptCost {
		return fmt.Errorf("the hash has the cost %d; expected %d to %d", cost, minBcryptCost, maxBcryptCost)
	}
	return nil
}
