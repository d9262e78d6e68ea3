package http1

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// unannounced is how long a connection may be idle if the upstream does not say when it closes it.
const unannounced = 24 * time.Hour

// announced returns how long a connection may be idle by a Keep-Alive field of a response (RFC 2068, section
// 19.7.1.1). An upstream that closes it while a request is on the way does not tell whether it has seen the
// request, which perhaps must not be sent twice. So the client is early: by a second, or half of the time.
func announced(keepAlive string) time.Duration {
	for parameter := range strings.SplitSeq(keepAlive, ",") {
		name, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "timeout") {
			continue
		}
		seconds, err := strconv.ParseUint(strings.TrimSpace(value), 10, 16)
		if err != nil {
			break
		}
		timeout := time.Duration(seconds) * time.Second
		return max(timeout-time.Second, timeout/2)
	}
	return unannounced
}

// Aged returns when a new connection is too old for another request, if connections may get that old. Not all that
// were opened together end together. Zero is never, and so is an age of 0.
func Aged(age time.Duration) time.Time {
	if age == 0 {
		return time.Time{}
	}
	return time.Now().Add(age - rand.N(age/8+1))
}

// rest notes that the connection becomes idle, and how long it may be used again: most at most.
func (k *conn) rest(most time.Duration) {
	k.since = time.Now()
	k.until = k.since.Add(min(most, k.lives))
	if !k.aged.IsZero() && k.aged.Before(k.until) {
		k.until = k.aged
	}
}
