// Package rotation replaces a refresh token by the next one, and tells a race from theft (RFC 9700,
// section 4.14.2). The refresh tokens of logins and those of grants rotate by it.
//
// # Limits and threats
//
// A record holds hashes: of the one valid token, and of those replaced within the leeway. A token
// from before them counts as reused. Of several calls with one token, one succeeds, because
// each swaps the record that it has read. A record may be older than the token that is compared
// with it. So a caller that finds a token reused asks the store for the record again, and begins
// anew with ErrStale if it has changed.
package rotation

import (
	"errors"
	"slices"
	"time"
)

// MaxReplaced is how many tokens replaced within the leeway a State remembers.
const MaxReplaced = 32

// MaxReads is how often Retry begins again. Each time, another call has come between a read and
// its write.
const MaxReads = 8

// ErrStale: the store does not hold the record any more as it was read.
var ErrStale = errors.New("rotation: the record has changed in the meantime")

// State is the part of a record that rotates. The zero State has no valid token.
type State struct {
	Current string     `json:"current,omitempty"` // hash of the valid token
	Rotated []Replaced `json:"rotated,omitempty"` // within the leeway, the last one at the end
}

// Replaced is a token that was replaced.
type Replaced struct {
	Token string    `json:"g"` // its hash
	At    time.Time `json:"at"`
}

// within reports whether the rotation happened within the leeway. A rotation further in the
// future happened an unknown time ago, before the clock was set back.
func (r Replaced) within(leeway time.Duration, now time.Time) bool {
	return now.Sub(r.At).Abs() <= leeway
}

// JustReplaced reports whether a token that is not the current one was replaced within the leeway.
// Then its use is a race within the client. Otherwise it is theft.
func (s *State) JustReplaced(hash string, leeway time.Duration, now time.Time) bool {
	return slices.ContainsFunc(s.Rotated, func(r Replaced) bool { return r.Token == hash && r.within(leeway, now) })
}

// Rotate returns the state in which next is valid.
func (s *State) Rotate(next string, leeway time.Duration, now time.Time) State {
	recent := slices.DeleteFunc(slices.Clone(s.Rotated), func(r Replaced) bool { return !r.within(leeway, now) })
	recent = append(recent, Replaced{Token: s.Current, At: now})
	return State{Current: next, Rotated: recent[max(0, len(recent)-MaxReplaced):]}
}

// Retry calls use until its error is not ErrStale, MaxReads times at most.
func Retry[T any](use func() (T, error)) (result T, err error) {
	for range MaxReads {
		if result, err = use(); !errors.Is(err, ErrStale) {
			break
		}
	}
	return result, err
}
