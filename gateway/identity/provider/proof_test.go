package provider

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/policy"
)

// What the ID token says of the sign-in is what the login has proved, and nothing that
// userinfo or an access token says.
func TestProof(t *testing.T) {
	configured := TwoFactors{AMR: []string{"mfa", "hwk"}, ACR: []string{"urn:two"}}
	long := strings.Repeat("x", maxMethod+1)
	methods := func(amr ...string) policy.Proof { return policy.Proof{AMR: amr} }
	for name, test := range map[string]struct {
		counts TwoFactors
		id     object // claims of the ID token
		want   policy.Proof
	}{
		"nothing":              {configured, nil, policy.Proof{}},
		"a password":           {configured, object{"amr": []string{"pwd"}}, methods("pwd")},
		"two factors":          {configured, object{"amr": []string{"pwd", "mfa"}}, methods("pwd", "mfa")},
		"a method that counts": {configured, object{"amr": []string{"hwk"}}, methods("hwk", "mfa")},
		"one that does not":    {configured, object{"amr": []string{"pwd", "otp"}}, methods("pwd", "otp")},
		"mfa that does not count": {TwoFactors{ACR: []string{"urn:two"}}, object{"amr": []string{"pwd", "mfa"}},
			methods("pwd")},
		"mfa beside what counts": {TwoFactors{AMR: []string{"hwk"}}, object{"amr": []string{"hwk", "mfa"}},
			methods("hwk", "mfa")},
		"nothing counts":      {TwoFactors{}, object{"amr": []string{"mfa"}, "acr": ""}, policy.Proof{}},
		"a class that counts": {configured, object{"acr": "urn:two"}, methods("mfa")},
		"no class at all":     {TwoFactors{AMR: []string{""}, ACR: []string{""}}, nil, policy.Proof{}},
		"one that almost does": {configured, object{"acr": "URN:two", "amr": []string{"MFA", "mfa "}},
			methods("MFA", "mfa ")},
		"several classes":    {configured, object{"acr": []string{"urn:two"}}, policy.Proof{}},
		"one string":         {configured, object{"amr": "mfa"}, methods("mfa")},
		"a list in a string": {configured, object{"amr": "pwd mfa"}, methods("pwd mfa")},
		"not all strings":    {configured, object{"amr": []any{"mfa", 1}}, policy.Proof{}},
		"an object":          {configured, object{"amr": object{"mfa": true}}, policy.Proof{}},
		"null":               {configured, object{"amr": []any{nil}, "acr": nil, "auth_time": nil}, policy.Proof{}},
		"odd methods": {configured, object{"amr": []string{"", long, "a\x00b", "a\u202eb", "pwd", "pwd"}},
			methods("pwd")},
		"too many methods": {configured, object{"amr": slices.Repeat([]string{"mfa"}, maxMethods+1)}, policy.Proof{}},

		"a time": {configured, object{"auth_time": testTime.Add(-time.Hour).Unix()},
			policy.Proof{AuthTime: testTime.Add(-time.Hour)}},
		"a fraction": {configured, object{"auth_time": float64(testTime.Unix()) - 1.5},
			policy.Proof{AuthTime: testTime.Add(-2 * time.Second)}},
		"a clock ahead": {configured, object{"auth_time": testTime.Add(clockLeeway).Unix()},
			policy.Proof{AuthTime: testTime}},
		"a time to come":  {configured, object{"auth_time": testTime.Add(clockLeeway + time.Second).Unix()}, policy.Proof{}},
		"a time in words": {configured, object{"auth_time": testTime.Format(time.RFC3339)}, policy.Proof{}},
		"a string":        {configured, object{"auth_time": "1700000000"}, policy.Proof{}},
		"before all time": {configured, object{"auth_time": -1}, policy.Proof{}},
		"zero":            {configured, object{"auth_time": 0}, policy.Proof{}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.now = func() time.Time { return testTime }
			f.id = test.id
			for _, other := range []object{f.userinfo, f.answer} {
				maps.Copy(other, object{"amr": []string{"mfa", "hwk"}, "acr": "urn:two", "auth_time": testTime.Unix()})
			}
			grant := must(exchange(t, f.provider(func(o *Options) { o.TwoFactors = test.counts })))
			if diff := cmp.Diff(test.want, grant.Proof); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// testTime is a whole second, as the times in tokens are.
var testTime = time.Unix(1_800_000_000, 0)

// The request for a step-up asks for all that is demanded, whatever the configuration
// asks for otherwise.
func TestAuthorizationURLOfAStepUp(t *testing.T) {
	usual := map[string]string{"prompt": "select_account", "acr_values": "urn:usual"}
	for name, test := range map[string]struct {
		change func(f *fake, o *Options)
		demand policy.Demand
		want   url.Values // of the parameters prompt, max_age and acr_values
	}{
		"nothing": {func(_ *fake, o *Options) { o.StepUpACR = "urn:two" }, policy.Demand{}, url.Values{}},
		"an age": {func(_ *fake, o *Options) { o.StepUpACR = "urn:two" }, policy.Demand{MaxAge: 15 * time.Minute},
			url.Values{"prompt": {"login"}, "max_age": {"900"}}},
		"less than a second": {func(*fake, *Options) {}, policy.Demand{MaxAge: time.Second - 1},
			url.Values{"prompt": {"login"}, "max_age": {"0"}}},
		"two factors": {func(_ *fake, o *Options) { o.StepUpACR = "urn:two urn:three" }, policy.Demand{Factors: 2},
			url.Values{"prompt": {"login"}, "acr_values": {"urn:two urn:three"}}},
		"no class is known": {func(*fake, *Options) {}, policy.Demand{Factors: 2}, url.Values{"prompt": {"login"}}},
		"both, over what is configured": {
			func(_ *fake, o *Options) {
				o.StepUpACR, o.AuthorizationParams, o.Scopes = "urn:two", usual, []string{"openid", "offline_access"}
			},
			policy.Demand{Factors: 2, MaxAge: time.Hour},
			url.Values{"prompt": {"login consent"}, "acr_values": {"urn:two"}, "max_age": {"3600"}}},
		"what is configured otherwise": {func(_ *fake, o *Options) { o.StepUpACR, o.AuthorizationParams = "urn:two", usual },
			policy.Demand{}, url.Values{"prompt": {"select_account"}, "acr_values": {"urn:usual"}}},
		"without OpenID Connect": {func(f *fake, o *Options) { o.StepUpACR, o.Endpoints = "urn:two", f.endpoints("") },
			policy.Demand{Factors: 2, MaxAge: time.Hour}, url.Values{}},
	} {
		t.Run(name, func(t *testing.T) {
			f, attempt := newFake(t), testAttempt
			attempt.Demand = test.demand
			to := must(f.provider(func(o *Options) { test.change(f, o) }).AuthorizationURL(t.Context(), attempt))
			_, query, _ := strings.Cut(to, "?")
			got := must(url.ParseQuery(query))
			maps.DeleteFunc(got, func(name string, _ []string) bool {
				return !slices.Contains([]string{"prompt", "max_age", "acr_values"}, name)
			})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
