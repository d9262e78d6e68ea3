package login

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"authgate/internal/test/must"
)

// recordsOfVersions are records as versions of the gateway store them in a file or in
// Redis. Never change one: after an upgrade they are there. When a record changes, add
// what it is then, and say in docs/upgrade.md whether the version before can read it.
var recordsOfVersions = map[string][]struct {
	record any // a pointer to the zero value
	stored string
}{
	"0.1": {
		{&sessionRecord{}, `{"sid":"S","mechanism":"session","scope":"wiki.example.org","created":"2026-11-23T04:00:00Z","expires":"2026-11-23T05:00:00Z","seen":"2026-11-23T04:01:00Z"}`},
		{&Login{}, `{"user":"alice","version":"V","since":"2026-11-01T00:00:00Z","renewed":{"version":"W","since":"2026-11-02T00:00:00Z"},"created":"2026-11-23T04:00:00Z","expires":"2026-11-23T05:00:00Z","device":{"client":"192.0.2.7","user_agent":"curl/8"},"handles":["session:A"],"attached":[{"scope":"wiki.example.org","key":"session:B"}]}`},
		{&Login{}, `{"delegated":{"provider":"company","issuer":"https://id.example.net","sub":"1001","op_sid":"O","renew_at":"2026-11-23T04:05:00Z","tokens_expire":"2026-11-23T04:10:00Z","renewed":"2026-11-23T04:00:00Z","tokens":"AQI="},"created":"2026-11-23T04:00:00Z","expires":"2026-11-23T05:00:00Z"}`},
		{&family{}, `{"sid":"S","current":"C","expires":"2026-11-30T04:00:00Z","device":"D","rotated":[{"g":"G","at":"2026-11-23T04:00:00Z"}]}`},
		{&group{}, `{"ended":"2026-11-22T00:00:00Z","members":[{"sid":"S","expires":"2026-11-23T05:00:00Z"}]}`},
		{&user{}, `{"issuer":"https://id.example.net","profile":{"subject":"1001","username":"alice","name":"Alice","email":"alice@example.org","roles":["staff"],"claims":{"department":"sales"}},"updated":"2026-11-23T04:00:00Z"}`},
		{&apiTokenRecord{}, `{"id":"I","name":"git","user":"alice","version":"V","since":"2026-11-01T00:00:00Z","roles":["staff"],"created":"2026-11-23T04:00:00Z","expires":"2027-11-23T04:00:00Z","last_used":"2026-11-23T04:01:00Z"}`},
		{&apiTokenEntry{}, `{"id":"I","key":"api:K","expires":"2027-11-23T04:00:00Z"}`},
	},
}

// What a version has stored means the same to this one: no field is lost, renamed or
// read in another way.
func TestRecordsOfEarlierVersions(t *testing.T) {
	t.Parallel()
	for version, records := range recordsOfVersions {
		for _, r := range records {
			strict := json.NewDecoder(bytes.NewReader([]byte(r.stored)))
			strict.DisallowUnknownFields()
			if err := strict.Decode(r.record); err != nil {
				t.Errorf("%s: %T: %v\n%s", version, r.record, err, r.stored)
				continue
			}
			again := must.Get(json.Marshal(r.record))(t)
			if diff := cmp.Diff(object(t, r.stored), object(t, string(again))); diff != "" {
				t.Errorf("%s: %T has lost (-) or gained (+) something:\n%s", version, r.record, diff)
			}
		}
	}
	for _, kind := range []any{sessionRecord{}, Login{}, family{}, group{}, user{}, apiTokenRecord{}, apiTokenEntry{}, delegation{}} {
		of := reflect.TypeOf(kind)
		for i := range of.NumField() {
			if field := of.Field(i); field.IsExported() && field.Tag.Get("json") == "" {
				t.Errorf("%s.%s has no name in the store", of, field.Name)
			}
		}
	}
}

func object(t *testing.T, text string) (fields map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}
