// Package startpage is the page with the applications that a user may open, the same list for
// programs, and the icons of the applications.
//
// An application is a route with the key app. The policy of the route decides who sees it, as
// it decides who may open it.
package startpage
