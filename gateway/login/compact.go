package login

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"authgate/gateway/store"
	"authgate/policy"
)

// Records are JSON where another version of the gateway may read them: in Redis
// during a rolling restart, in a file after the next start. In a store that ends with the
// process (store.Volatile), the frequent records have a compact encoding, which takes
// a third of the memory. It can change freely, because only this process reads it.
//
// A compact record begins with compactFormat, which JSON cannot begin with. decode
// accepts both everywhere. A record with a value that has no compact encoding, such
// as a year after 2262, is JSON.
const compactFormat = 1

// compactor is a record with a compact encoding.
type compactor interface {
	// compact returns the record, or nil if it has no compact encoding.
	compact() []byte
}

// expander is the pointer to a compactor.
type expander interface{ expand(*compactReader) }

// encode returns a record as it is stored.
func (l *Logins) encode(record any) ([]byte, error) {
	if c, ok := record.(compactor); ok && l.volatile {
		if raw := c.compact(); raw != nil {
			return raw, nil
		}
	}
	return json.Marshal(record)
}

// decode decodes a record in either encoding.
func decode[T any](raw []byte) (*T, error) {
	record := new(T)
	var err error
	if e, ok := any(record).(expander); ok && len(raw) > 0 && raw[0] == compactFormat {
		r := compactReader{rest: raw[1:]}
		e.expand(&r)
		err = r.end()
	} else {
		err = json.Unmarshal(raw, record)
	}
	if err != nil {
		return nil, fmt.Errorf("a record in the store is damaged: %w", err)
	}
	return record, nil
}

// sessionMechanisms returns the mechanisms of sessions by their number in a compact
// record.
func sessionMechanisms() []policy.Mechanism { return []policy.Mechanism{policy.Session, policy.OIDC} }

// handleKinds returns the kinds of handles by their number in a compact record.
func handleKinds() []string { return []string{SessionPrefix, refreshPrefix} }

func (s sessionRecord) compact() []byte {
	w := newCompactWriter(48)
	w.byte(slices.Index(sessionMechanisms(), s.Mechanism))
	w.sid(s.Login)
	w.text(s.Scope)
	w.time(s.Created)
	w.after(s.Created, s.Expires)
	w.after(s.Created, s.Seen)
	return w.result()
}

func (s *sessionRecord) expand(r *compactReader) {
	s.Mechanism = choose(r, sessionMechanisms())
	s.Login = r.sid()
	s.Scope = r.text()
	s.Created = r.time()
	s.Expires = r.after(s.Created)
	s.Seen = r.after(s.Created)
}

func (login *Login) compact() []byte {
	if login.Delegated != nil || login.Attached != nil || login.Renewed != nil {
		return nil
	}
	w := newCompactWriter(160)
	w.text(login.Username)
	w.base64(login.Version)
	w.time(login.Created)
	w.after(login.Created, login.Since)
	w.after(login.Created, login.Expires)
	w.byte(map[bool]int{true: 1}[login.Remember])
	login.Device.write(w)
	for _, key := range login.Handles {
		kind := store.KindOf(key)
		w.byte(slices.Index(handleKinds(), kind))
		w.base64(key[len(kind):])
	}
	return w.result()
}

func (login *Login) expand(r *compactReader) {
	login.Username = r.text()
	login.Version = r.base64()
	login.Created = r.time()
	login.Since = r.after(login.Created)
	login.Expires = r.after(login.Created)
	login.Remember = choose(r, []bool{false, true})
	login.Device.read(r)
	for r.more() {
		login.Handles = append(login.Handles, choose(r, handleKinds())+r.base64())
	}
}

func (f family) compact() []byte {
	w := newCompactWriter(96)
	w.sid(f.Login)
	w.base64(f.Current)
	w.base64(f.Device)
	w.time(f.Expires)
	for _, past := range f.Rotated {
		w.base64(past.Generation)
		w.after(f.Expires, past.At)
	}
	return w.result()
}

func (f *family) expand(r *compactReader) {
	f.Login = r.sid()
	f.Current = r.base64()
	f.Device = r.base64()
	f.Expires = r.time()
	for r.more() {
		f.Rotated = append(f.Rotated, rotation{Generation: r.base64(), At: r.after(f.Expires)})
	}
}

func (g *group) compact() []byte {
	w := newCompactWriter(16 + (sidBytes+timeBytes)*len(g.Members))
	if g.Ended.IsZero() { // as a rule
		w.byte(0)
	} else {
		w.byte(1)
		w.time(g.Ended)
	}
	for _, m := range g.Members {
		w.sid(m.Login)
		w.time(m.Expires)
	}
	return w.result()
}

func (g *group) expand(r *compactReader) {
	if choose(r, []bool{false, true}) {
		g.Ended = r.time()
	}
	for r.more() {
		g.Members = append(g.Members, member{Login: r.sid(), Expires: r.time()})
	}
}

const (
	sidLength  = 26 // characters of rand.Text, of 5 bits each
	sidBytes   = 17 // that hold these bits
	sidPadding = "AAAAAA"

	timeBytes = 8
)

// Units of the difference of two times.
const (
	inNanoseconds = iota
	inSeconds
	noTime // the zero time

	unitBits = 2
)

func sidEncoding() *base32.Encoding { return base32.StdEncoding.WithPadding(base32.NoPadding) }

// compactWriter writes the fields of a compact record.
type compactWriter struct {
	raw   []byte
	unfit bool // a field has no compact encoding
}

func newCompactWriter(size int) *compactWriter {
	return &compactWriter{raw: append(make([]byte, 0, size), compactFormat)}
}

// result returns the record, or nil if a field has no compact encoding.
func (w *compactWriter) result() []byte {
	if w.unfit {
		return nil
	}
	return w.raw
}

// byte writes a number. A negative one has no compact encoding.
func (w *compactWriter) byte(n int) {
	w.unfit = w.unfit || n < 0 || n > math.MaxUint8
	w.raw = append(w.raw, byte(n))
}

func (w *compactWriter) text(s string) {
	w.raw = append(binary.AppendUvarint(w.raw, uint64(len(s))), s...)
}

// base64 writes bytes in base64url.
func (w *compactWriter) base64(s string) {
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(s)
	w.unfit = w.unfit || err != nil || base64.RawURLEncoding.EncodedLen(len(decoded)) != len(s) // a line break
	w.text(string(decoded))
}

// sid writes the name of a login.
func (w *compactWriter) sid(s string) {
	decoded, err := sidEncoding().DecodeString(s + sidPadding)
	if err != nil || len(s) != sidLength || strings.ContainsAny(s, "\r\n") {
		w.unfit = true
		return
	}
	w.raw = append(w.raw, decoded[:sidBytes]...)
}

// time writes a time. The number 0 is the zero time.
func (w *compactWriter) time(t time.Time) {
	n := t.UnixNano()
	switch {
	case t.IsZero():
		n = 0
	case !time.Unix(0, n).Equal(t), n == 0:
		w.unfit = true
	}
	w.raw = binary.BigEndian.AppendUint64(w.raw, uint64(n)) // a varint takes a byte more
}

// after writes a time that is near start: the difference, and in the two lowest bits
// its unit. Most differences are lifetimes of whole seconds.
func (w *compactWriter) after(start, t time.Time) {
	start, t = start.Round(0), t.Round(0) // without the monotonic readings, which a record has not
	difference, unit := t.Sub(start), inNanoseconds
	switch {
	case t.IsZero():
		difference, unit = 0, noTime
	case !start.Add(difference).Equal(t), difference.Abs() > math.MaxInt64>>unitBits:
		w.unfit = true
	case difference%time.Second == 0:
		difference, unit = difference/time.Second, inSeconds
	}
	w.raw = binary.AppendVarint(w.raw, int64(difference)<<unitBits|int64(unit))
}

// compactReader reads what compactWriter has written.
type compactReader struct {
	rest    []byte
	damaged bool
}

// more reports whether there are more fields.
func (r *compactReader) more() bool { return len(r.rest) > 0 && !r.damaged }

// end returns an error unless all fields were read and are sound.
func (r *compactReader) end() error {
	if r.damaged || len(r.rest) > 0 {
		return errors.New("its compact encoding has the wrong length or a wrong value")
	}
	return nil
}

// take reads the next n bytes.
func (r *compactReader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.damaged = true
		return make([]byte, max(0, min(n, sidBytes)))
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

// choose reads the number of one of the choices.
func choose[T any](r *compactReader, choices []T) (chosen T) {
	n := r.byte()
	if n >= len(choices) {
		r.damaged = true
		return chosen
	}
	return choices[n]
}

func (r *compactReader) byte() int { return int(r.take(1)[0]) }

func (r *compactReader) text() string {
	length, n := binary.Uvarint(r.rest)
	if n <= 0 || length > math.MaxInt32 {
		r.damaged = true
		return ""
	}
	r.take(n)
	return string(r.take(int(length)))
}

func (r *compactReader) base64() string {
	return base64.RawURLEncoding.EncodeToString([]byte(r.text()))
}

func (r *compactReader) sid() string {
	var bits [20]byte
	copy(bits[:], r.take(sidBytes))
	return sidEncoding().EncodeToString(bits[:])[:sidLength]
}

func (r *compactReader) number() int64 {
	number, n := binary.Varint(r.rest)
	if n <= 0 {
		r.damaged = true
		return 0
	}
	r.take(n)
	return number
}

func (r *compactReader) time() time.Time {
	n := int64(binary.BigEndian.Uint64(r.take(timeBytes)))
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

func (r *compactReader) after(start time.Time) time.Time {
	number := r.number()
	difference := time.Duration(number >> unitBits)
	switch number & (1<<unitBits - 1) {
	case inNanoseconds:
		return start.Add(difference)
	case inSeconds:
		if seconds := difference * time.Second; seconds/time.Second == difference {
			return start.Add(seconds)
		}
	case noTime:
		return time.Time{}
	}
	r.damaged = true
	return time.Time{}
}
