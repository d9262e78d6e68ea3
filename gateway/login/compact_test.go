package login

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"authgate/gateway/must"
	"authgate/policy"
)

// testTime is a time as clocks return it: local, with nanoseconds.
func testTime() time.Time {
	return time.Date(2026, 3, 29, 1, 59, 59, 123456789, time.FixedZone("east", 3600))
}

// compactRecords returns records that have a compact encoding.
func compactRecords() map[string]compactor {
	now := testTime()
	session, refresh := SessionPrefix+hashed([]byte("session")), refreshPrefix+hashed([]byte("refresh"))
	full := &Login{Username: "alice", Version: base64url(make([]byte, 16)), Since: now.Add(-time.Hour * 24 * 400), Created: now, Expires: now.Add(time.Hour), Handles: []string{refresh, session},
		Device: Device{Client: netip.MustParseAddr("2001:db8::7"), UserAgent: chrome}}
	return map[string]compactor{
		"session":           sessionRecord{Login: rand.Text(), Mechanism: policy.Session, Scope: "wiki.example.org", Created: now, Expires: now.Add(time.Hour), Seen: now.Add(time.Minute)},
		"delegated session": sessionRecord{Login: rand.Text(), Mechanism: policy.OIDC, Created: now, Expires: now.Add(-1)},
		"login":             full,
		"odd device":        &Login{Username: "a", Created: now, Expires: now, Device: Device{Client: netip.MustParseAddr("192.0.2.7"), UserAgent: "curl/8 é Mozilla/5.0 (Mobile"}},
		"remembered":        &Login{Username: "a", Created: now, Expires: now.Add(time.Hour), Remember: true, Handles: []string{session}},
		"long name":         &Login{Username: strings.Repeat("é\n\x00", 100), Created: now, Expires: now},
		"family":            family{Login: rand.Text(), Current: hashed([]byte("a")), Expires: now},
		"rotated family": family{Login: rand.Text(), Current: hashed([]byte("a")), Expires: now, Device: hashed([]byte("b")),
			Rotated: []rotation{{hashed([]byte("c")), now.Add(-time.Minute)}, {hashed([]byte("d")), now}}},
		"empty group": &group{},
		"ended group": &group{Ended: now},
		"group":       &group{Members: []member{{rand.Text(), now}, {strings.Repeat("7", sidLength), now.Add(time.Hour)}}},
	}
}

// decodeAs decodes raw as a record of the type of like.
func decodeAs(like compactor, raw []byte) (any, error) {
	switch like.(type) {
	case sessionRecord:
		return decode[sessionRecord](raw)
	case *Login:
		return decode[Login](raw)
	case family:
		return decode[family](raw)
	}
	return decode[group](raw)
}

// TestRecordsInBothEncodings writes each record for a store that ends with the
// process, and for one that other versions read: JSON, as they know it. Both give the
// same record.
func TestRecordsInBothEncodings(t *testing.T) {
	t.Parallel()
	for name, record := range compactRecords() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			small := must.Get((&Logins{volatile: true}).encode(record))(t)
			large := must.Get((&Logins{}).encode(record))(t)
			if small[0] != compactFormat || !bytes.Equal(large, must.Get(json.Marshal(record))(t)) {
				t.Errorf("encoded as %q and %q, want the compact encoding and JSON", small, large)
			}
			if name != "empty group" && len(small)*3 > len(large)*2 {
				t.Errorf("%d bytes instead of %d, want at most two thirds", len(small), len(large))
			}
			got, want := must.Get(decodeAs(record, small))(t), must.Get(decodeAs(record, large))(t)
			if g, w := must.Get(json.Marshal(inUTC(got)))(t), must.Get(json.Marshal(inUTC(want)))(t); !bytes.Equal(g, w) {
				t.Errorf("the compact encoding gives\n%s\nJSON gives\n%s", g, w)
			}
		})
	}
}

// inUTC returns a record with its times in UTC. JSON keeps the offset, which has no
// meaning.
func inUTC(record any) any {
	utc := func(times ...*time.Time) {
		for _, at := range times {
			if !at.IsZero() {
				*at = at.UTC()
			}
		}
	}
	switch r := record.(type) {
	case *sessionRecord:
		utc(&r.Created, &r.Expires, &r.Seen)
	case *Login:
		utc(&r.Created, &r.Expires, &r.Since)
	case *family:
		utc(&r.Expires)
		for i := range r.Rotated {
			utc(&r.Rotated[i].At)
		}
	case *group:
		utc(&r.Ended)
		for i := range r.Members {
			utc(&r.Members[i].Expires)
		}
	}
	return record
}

// TestRecordsThatDoNotFit are JSON everywhere: nothing is lost or rounded.
func TestRecordsThatDoNotFit(t *testing.T) {
	t.Parallel()
	now, far := testTime(), time.Date(2400, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, record := range map[string]compactor{
		"another sid":        sessionRecord{Login: "sid", Mechanism: policy.Session, Created: now},
		"a sid with breaks":  sessionRecord{Login: "\n" + rand.Text()[1:], Mechanism: policy.Session, Created: now},
		"a small sid":        sessionRecord{Login: strings.ToLower(rand.Text()), Mechanism: policy.Session, Created: now},
		"another mechanism":  sessionRecord{Login: rand.Text(), Mechanism: policy.Basic, Created: now},
		"a far expiry":       sessionRecord{Login: rand.Text(), Mechanism: policy.Session, Created: now, Expires: far},
		"a far beginning":    sessionRecord{Login: rand.Text(), Mechanism: policy.Session, Created: far, Expires: far},
		"a delegated login":  &Login{Created: now, Delegated: &Delegation{Provider: "p"}},
		"sessions elsewhere": &Login{Created: now, Attached: []Attached{{Key: "session:x"}}},
		"another version":    &Login{Created: now, Version: "bcrypt!"},
		"a version's bits":   &Login{Created: now, Version: "AB"},
		"a version's breaks": &Login{Created: now, Version: "A\nAAA"},
		"another handle":     &Login{Created: now, Handles: []string{"other:" + hashed(nil)}},
		"another password":   &Login{Created: now, Renewed: &Renewal{Since: now}},
		"a control":          &Login{Created: now, Device: Device{UserAgent: "a\x01b"}},
		"a zone":             &Login{Created: now, Device: Device{Client: netip.MustParseAddr("fe80::1%eth0")}},
		"no kind":            &Login{Created: now, Handles: []string{hashed(nil)}},
		"a far group":        &group{Members: []member{{rand.Text(), far}}},
	} {
		raw := must.Get((&Logins{volatile: true}).encode(record))(t)
		if want := must.Get(json.Marshal(record))(t); !bytes.Equal(raw, want) {
			t.Errorf("%s: encoded as %q, want %s", name, raw, want)
		}
		if _, err := decodeAs(record, raw); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCompactDamage cuts and extends records: each is an error, never another record.
func TestCompactDamage(t *testing.T) {
	t.Parallel()
	for name, record := range compactRecords() {
		raw := record.compact()
		whole := must.Get(decodeAs(record, raw))(t)
		for cut := range len(raw) {
			got, err := decodeAs(record, raw[:cut])
			if err == nil && (reflect.DeepEqual(got, whole) || !bytes.Equal(got.(compactor).compact(), raw[:cut])) {
				t.Errorf("%s: the first %d of %d bytes give %+v", name, cut, len(raw), got)
			}
		}
		if _, err := decodeAs(record, append(bytes.Clone(raw), 0)); err == nil {
			t.Errorf("%s: a surplus byte is no error", name)
		}
	}
}

// A group was ended or not: the byte that says so has two values.
func TestCompactFlag(t *testing.T) {
	t.Parallel()
	ended := (&group{Ended: testTime()}).compact()
	if ended[1] != 1 {
		t.Fatalf("the flag of %x is not its second byte", ended)
	}
	ended[1] = 2
	if got, err := decodeAs(&group{}, ended); err == nil {
		t.Errorf("a flag of 2 gives %+v", got)
	}
}

// FuzzCompact decodes any bytes as each record. What it accepts keeps its meaning when
// it is written again.
func FuzzCompact(f *testing.F) {
	for _, record := range compactRecords() {
		f.Add(record.compact())
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		raw = append([]byte{compactFormat}, raw[min(1, len(raw)):]...)
		for _, like := range []compactor{sessionRecord{}, &Login{}, family{}, &group{}} {
			record, err := decodeAs(like, raw)
			if err != nil {
				continue
			}
			again := record.(compactor).compact()
			if again == nil {
				continue // such as a time that overflows
			}
			if same := must.Get(decodeAs(like, again))(t); !reflect.DeepEqual(record, same) {
				t.Errorf("%+v becomes %+v", record, same)
			}
		}
	})
}

// A new field of a record needs a place in its compact encoding, or must make compact
// return nil. Then this number changes.
func TestCompactKnowsEveryField(t *testing.T) {
	t.Parallel()
	for record, fields := range map[reflect.Type]int{
		reflect.TypeFor[sessionRecord](): 6, reflect.TypeFor[Login](): 12, // with ID, which is the key
		reflect.TypeFor[Device](): 2,
		reflect.TypeFor[family](): 5, reflect.TypeFor[rotation](): 2, reflect.TypeFor[group](): 2, reflect.TypeFor[member](): 2,
	} {
		if n := record.NumField(); n != fields {
			t.Errorf("%v has %d fields, and its compact encoding knows %d", record, n, fields)
		}
	}
}
