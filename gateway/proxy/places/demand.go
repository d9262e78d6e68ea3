package places

import (
	"net/url"
	"strconv"
	"time"

	"authgate/policy"
)

// The parameters of the demand of a sign-in, beside those of a Return. A user who removes them
// comes to the same decision again.
const (
	factorsField = "factors"
	maxAgeField  = "max_age" // a Go duration
)

// ReadDemand reads the demand of a sign-in. A value that no policy can demand counts as absent.
func ReadDemand(value func(name string) string) (d policy.Demand) {
	if value(factorsField) == "2" {
		d.Factors = 2
	}
	if age, err := time.ParseDuration(value(maxAgeField)); err == nil && policy.CheckMaxAge(age) == nil {
		d.MaxAge = age
	}
	return d
}

// DemandFields returns the values of the parameters of a demand, empty where it has none.
func DemandFields(d policy.Demand) (factors, maxAge string) {
	if d.Factors > 0 {
		factors = strconv.Itoa(d.Factors)
	}
	if d.MaxAge > 0 {
		maxAge = d.MaxAge.String()
	}
	return factors, maxAge
}

// withDemand returns a place with the parameters of a demand.
func withDemand(place string, d policy.Demand) string {
	factors, maxAge := DemandFields(d)
	for _, parameter := range []struct{ name, value string }{{factorsField, factors}, {maxAgeField, maxAge}} {
		if parameter.value != "" {
			place = WithParameter(place, parameter.name, parameter.value)
		}
	}
	return place
}

// StepUpPage returns the page where a user who is signed in proves more: users of a provider
// go there at once, others to page.
func (p *Places) StepUpPage(id *policy.Identity, page string) string {
	if id.Mechanism.Traits().Users == policy.ProviderUsers {
		return p.Own("login") + "?provider=" + url.QueryEscape(id.Provider)
	}
	return page
}
