package cookiename

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// ownerMark begins the name of a cookie that belongs to one user of the browser, and ownerLength
// is how many characters of the user's hash follow. They are few, because browsers bound the
// length of a cookie with its name.
const (
	ownerMark   = "authgate_user_"
	ownerLength = 16
)

// Owner is whom a cookie of an application belongs to, if several people use one browser: each
// has cookies under names of their own. The zero Owner owns nothing.
type Owner string

// OwnerOf returns the owner for the user with a subject. A request without credentials has the
// empty subject. Another user of the browser cannot read the subject from the names.
func OwnerOf(subject string) Owner {
	sum := sha256.Sum256([]byte(subject))
	return Owner(ownerMark + base64.RawURLEncoding.EncodeToString(sum[:])[:ownerLength] + "_")
}

// Owned reports whether the cookie of that name belongs to one user alone.
func Owned(name string) bool {
	_, rest := split(name)
	return strings.HasPrefix(rest, ownerMark)
}

// ForBrowser returns the name in the browser of a cookie that belongs to the owner.
func (o Owner) ForBrowser(name string) string {
	prefix, rest := split(name)
	return prefix + string(o) + rest
}

// ForApplication returns the name that the application has for a cookie of the owner. It reports
// false for any other cookie.
func (o Owner) ForApplication(name string) (own string, ok bool) {
	if o == "" {
		return name, false
	}
	return unmarked(name, string(o))
}
