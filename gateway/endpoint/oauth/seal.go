package oauth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// seal binds a form to the session and the request of its page, and the time of a demanded sign-in
// to the request.
type seal struct{ key []byte }

// of returns the seal of those texts.
func (s seal) of(texts ...string) string {
	mac := hmac.New(sha256.New, s.key)
	for _, text := range texts {
		mac.Write([]byte(strconv.Itoa(len(text)) + ":" + text))
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// fits reports whether a seal is that of those texts.
func (s seal) fits(presented string, texts ...string) bool {
	return hmac.Equal([]byte(presented), []byte(s.of(texts...)))
}

// askedField is the parameter by which an authorization request that demands a sign-in says,
// after that sign-in, when it was asked for. Without it the user would be asked for ever.
const askedField = "signin_asked"

// withTime adds the time to the parameters of a request.
func (s seal) withTime(values url.Values, now time.Time) url.Values {
	values = withoutAsked(values)
	at := strconv.FormatInt(now.UnixMilli(), 10)
	values.Set(askedField, at+"."+s.of("asked", at, withoutAsked(values).Encode()))
	return values
}

// askedAt returns when the request asked for a sign-in; zero: it has not.
func (s seal) askedAt(values url.Values) time.Time {
	at, mac, _ := strings.Cut(values.Get(askedField), ".")
	milli, err := strconv.ParseInt(at, 10, 64)
	if err != nil || !s.fits(mac, "asked", at, withoutAsked(values).Encode()) {
		return time.Time{}
	}
	return time.UnixMilli(milli)
}

func withoutAsked(values url.Values) url.Values {
	rest := url.Values{}
	for name, all := range values {
		if name != askedField {
			rest[name] = all
		}
	}
	return rest
}
