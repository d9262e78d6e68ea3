package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/netip"

	"authgate/gateway/people/accounts"
	"authgate/gateway/people/password"
)

// Secrets are the secrets of one program: several, so that one can be replaced while the others
// serve. Each is valid, as a text or as the hash of one.
type Secrets struct {
	texts   [][sha256.Size]byte // hashed, so that all comparisons take the same time
	hashes  []password.Hash
	account *accounts.Account // that of the throttle
	version string            // another one if a secret is replaced
}

// NewSecrets returns the secrets of a program. The throttle counts them by the name, which
// is not that of a user.
func NewSecrets(name string, texts []string, hashes []password.Hash) *Secrets {
	s := &Secrets{hashes: hashes, account: &accounts.Account{Username: "program\x00" + name}}
	version := sha256.New()
	for _, text := range texts {
		sum := sha256.Sum256([]byte(text))
		s.texts = append(s.texts, sum)
		version.Write(sum[:])
	}
	for _, hash := range hashes {
		version.Write([]byte(hash.Encoded() + "\n"))
	}
	s.version = base64.RawURLEncoding.EncodeToString(version.Sum(nil))
	return s
}

// CheckSecret is Check for a program. It can have written its secret in several spellings,
// of which one must be right.
func (v *Verifier) CheckSecret(ctx context.Context, s *Secrets, client netip.Addr, spellings ...string) error {
	c := passwordCheck{
		subject: newSubject(s.account.Username, client), account: s.account,
		secrets: s, spellings: spellings, cached: true,
	}
	c.subject.version = s.version
	written := ""
	for _, spelling := range spellings {
		sum := sha256.Sum256([]byte(spelling))
		written += string(sum[:])
	}
	c.key = v.macs.key("program", s.account.Username, written, s.version)
	good := s.hasText(spellings) || v.remembers(&c)
	if err := v.throttle.look(c.subject, good); err != nil {
		return err
	}
	if good {
		return nil
	}
	_, err := v.runCheck(ctx, &c)
	return err
}

// hasText reports whether one of the spellings is one of the texts.
func (s *Secrets) hasText(spellings []string) bool {
	found := 0
	for _, spelling := range spellings {
		sum := sha256.Sum256([]byte(spelling))
		for _, text := range s.texts {
			found |= subtle.ConstantTimeCompare(sum[:], text[:])
		}
	}
	return found == 1
}

// verify checks the password, or the spellings of a secret against each hash.
func (c *passwordCheck) verify(ctx context.Context, h *hasher, known bool) (bool, error) {
	if c.secrets == nil {
		return h.Verify(ctx, known, c.stored, c.password)
	}
	for _, hash := range c.secrets.hashes {
		for _, spelling := range c.spellings {
			if matches, err := h.Verify(ctx, known, hash, spelling); matches || err != nil {
				return matches, err
			}
		}
	}
	return false, nil
}
