package login

import (
	"testing"
	"time"

	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
)

// recordsOfVersions are records as versions of the gateway store them in a file or in
// Redis. Never change one: after an upgrade they are there. When a record changes, add
// what it is then, and say in docs/upgrade.md whether the version before can read it.
var recordsOfVersions = map[string][]struct {
	record any // a pointer to the zero value
	stored string
}{
	"0.1": {
		{&sessionRecord{}, `{"sid":"S","mechanism":"session","scope":"wiki.example.org",` +
			`"created":"2026-11-23T04:00:00Z","expires":"2026-11-23T05:00:00Z","seen":"2026-11-23T04:01:00Z"}`},
		{&Login{}, `{"user":"alice","version":"V","since":"2026-11-01T00:00:00Z",` +
			`"renewed":{"version":"W","since":"2026-11-02T00:00:00Z"},` +
			`"created":"2026-11-23T04:00:00Z","expires":"2026-11-23T05:00:00Z",` +
			`"device":{"client":"192.0.2.7","user_agent":"curl/8"},"handles":["session:A"],` +
			`"attached":[{"scope":"wiki.example.org","key":"session:B"}]}`},
		{&Login{}, `{"delegated":{"provider":"company","issuer":"https://id.example.net","sub":"1001","op_sid":"O",` +
			`"renew_at":"2026-11-23T04:05:00Z","tokens_expire":"2026-11-23T04:10:00Z",` +
			`"renewed":"2026-11-23T04:00:00Z","tokens":"AQI="},` +
			`"created":"2026-11-23T04:00:00Z","expires":"2026-11-23T05:00:00Z"}`},
		{&family{}, `{"sid":"S","current":"C","expires":"2026-11-30T04:00:00Z",` +
			`"device":"D","rotated":[{"g":"G","at":"2026-11-23T04:00:00Z"}]}`},
		{&group{}, `{"ended":"2026-11-22T00:00:00Z","members":[{"sid":"S","expires":"2026-11-23T05:00:00Z"}]}`},
		{&user{}, `{"issuer":"https://id.example.net","profile":{"subject":"1001","username":"alice","name":"Alice",` +
			`"email":"alice@example.org","roles":["staff"],"claims":{"department":"sales"}},` +
			`"updated":"2026-11-23T04:00:00Z"}`},
	},
}

// What a version has stored means the same to this one: no field is lost, renamed or
// read in another way.
func TestRecordsOfEarlierVersions(t *testing.T) {
	t.Parallel()
	for version, records := range recordsOfVersions {
		for _, r := range records {
			t.Log(version)
			storetest.WantKept(t, r.record, r.stored)
		}
	}
	storetest.WantNames(t, sessionRecord{}, Login{}, family{}, group{}, user{}, delegation{})
}

// A group that a version after 0.1.1 has stored means the same to this one, which stores it in the same form.
func TestRecordOfAGroup(t *testing.T) {
	t.Parallel()
	const stored = "\x01\x18\xea\x34\xee\x67\x45\x00\x00ABCDEFGHIJKLMNOPQRSTUVWXYZ\x18\xea\x93\xe1\xec\x2f\x20\x05"
	want := &group{Ended: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC), Members: []member{
		{"ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Date(2026, 11, 23, 5, 0, 0, 5, time.UTC)},
	}}
	wantGroup(t, []byte(stored), want)
	if got := must.Get(want.edited())(t); string(got.Value) != stored {
		t.Errorf("the record is %q", got.Value)
	}
}
