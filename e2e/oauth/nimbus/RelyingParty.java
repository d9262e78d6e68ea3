import com.nimbusds.oauth2.sdk.AuthorizationCode;
import com.nimbusds.oauth2.sdk.AuthorizationCodeGrant;
import com.nimbusds.oauth2.sdk.AuthorizationGrant;
import com.nimbusds.oauth2.sdk.AuthorizationResponse;
import com.nimbusds.oauth2.sdk.ClientCredentialsGrant;
import com.nimbusds.oauth2.sdk.RefreshTokenGrant;
import com.nimbusds.oauth2.sdk.ResponseType;
import com.nimbusds.oauth2.sdk.Scope;
import com.nimbusds.oauth2.sdk.TokenErrorResponse;
import com.nimbusds.oauth2.sdk.TokenIntrospectionRequest;
import com.nimbusds.oauth2.sdk.TokenIntrospectionResponse;
import com.nimbusds.oauth2.sdk.TokenRequest;
import com.nimbusds.oauth2.sdk.TokenResponse;
import com.nimbusds.oauth2.sdk.TokenRevocationRequest;
import com.nimbusds.oauth2.sdk.auth.ClientAuthentication;
import com.nimbusds.oauth2.sdk.auth.ClientSecretBasic;
import com.nimbusds.oauth2.sdk.auth.Secret;
import com.nimbusds.oauth2.sdk.http.HTTPRequest;
import com.nimbusds.oauth2.sdk.id.ClientID;
import com.nimbusds.oauth2.sdk.id.Issuer;
import com.nimbusds.oauth2.sdk.id.State;
import com.nimbusds.oauth2.sdk.pkce.CodeChallengeMethod;
import com.nimbusds.oauth2.sdk.pkce.CodeVerifier;
import com.nimbusds.oauth2.sdk.token.AccessToken;
import com.nimbusds.openid.connect.sdk.AuthenticationRequest;
import com.nimbusds.openid.connect.sdk.LogoutRequest;
import com.nimbusds.openid.connect.sdk.Nonce;
import com.nimbusds.openid.connect.sdk.OIDCTokenResponseParser;
import com.nimbusds.openid.connect.sdk.UserInfoRequest;
import com.nimbusds.openid.connect.sdk.UserInfoResponse;
import com.nimbusds.openid.connect.sdk.claims.IDTokenClaimsSet;
import com.nimbusds.openid.connect.sdk.op.OIDCProviderMetadata;
import com.nimbusds.openid.connect.sdk.token.OIDCTokens;
import com.nimbusds.openid.connect.sdk.validators.AccessTokenValidator;
import com.nimbusds.openid.connect.sdk.validators.IDTokenValidator;
import com.nimbusds.jose.JWSAlgorithm;
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URI;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;

/** Nimbus as a relying party. It knows the issuer, and finds all else by discovery. */
public class RelyingParty {
  private final String base;
  private final URI redirect;
  private final ClientID id = new ClientID("shop");
  private final ClientAuthentication authentication;
  private final OIDCProviderMetadata provider;
  private final BlockingQueue<URI> arrived = new ArrayBlockingQueue<>(1);

  RelyingParty(String base, int port, String secret) throws Exception {
    this.base = base;
    redirect = URI.create("http://127.0.0.1:" + port + "/callback");
    authentication = new ClientSecretBasic(id, new Secret(secret));
    provider = OIDCProviderMetadata.resolve(new Issuer(base));
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
    server.createContext("/", exchange -> {
      arrived.add(redirect.resolve(exchange.getRequestURI()));
      exchange.sendResponseHeaders(200, -1);
      exchange.close();
    });
    server.start();
  }

  /** Has the user open an address, and returns where the browser comes back to. */
  private URI visit(URI address) throws Exception {
    System.out.println("open " + address);
    return arrived.take();
  }

  private static void want(Object got, Object wanted) {
    if (!wanted.equals(got)) throw new AssertionError("got " + got + ", expected " + wanted);
  }

  private TokenResponse ask(AuthorizationGrant grant) throws Exception {
    TokenRequest request = new TokenRequest.Builder(provider.getTokenEndpointURI(), authentication, grant).build();
    return OIDCTokenResponseParser.parse(request.toHTTPRequest().send());
  }

  /** Calls the API behind the gateway, and returns the status. */
  private int call(String path, AccessToken token) throws Exception {
    HTTPRequest request = new HTTPRequest(HTTPRequest.Method.GET, URI.create(base + path));
    request.setAuthorization(token.toAuthorizationHeader());
    return request.send().getStatusCode();
  }

  private OIDCTokens signIn() throws Exception {
    State state = new State();
    Nonce nonce = new Nonce();
    CodeVerifier verifier = new CodeVerifier();
    Scope scope = new Scope("openid", "profile", "email", "groups", "offline_access");
    URI back = visit(new AuthenticationRequest.Builder(new ResponseType("code"), scope, id, redirect)
        .endpointURI(provider.getAuthorizationEndpointURI()).state(state).nonce(nonce)
        .codeChallenge(verifier, CodeChallengeMethod.S256).build().toURI());
    AuthorizationResponse response = AuthorizationResponse.parse(back);
    want(response.getState(), state);
    want(response.getIssuer(), provider.getIssuer());
    AuthorizationCode code = response.toSuccessResponse().getAuthorizationCode();
    OIDCTokens tokens = ((com.nimbusds.openid.connect.sdk.OIDCTokenResponse)
        ask(new AuthorizationCodeGrant(code, redirect, verifier)).toSuccessResponse()).getOIDCTokens();
    IDTokenClaimsSet claims = new IDTokenValidator(provider.getIssuer(), id, JWSAlgorithm.RS256,
        provider.getJWKSetURI().toURL()).validate(tokens.getIDToken(), nonce);
    want(claims.getSubject().getValue(), "alice");
    want(claims.getStringClaim("email"), "alice@example.org");
    AccessTokenValidator.validate(tokens.getAccessToken(), JWSAlgorithm.RS256, claims.getAccessTokenHash());
    return tokens;
  }

  private void run() throws Exception {
    OIDCTokens tokens = signIn();
    UserInfoResponse told = UserInfoResponse.parse(
        new UserInfoRequest(provider.getUserInfoEndpointURI(), tokens.getAccessToken()).toHTTPRequest().send());
    want(told.toSuccessResponse().getUserInfo().getPreferredUsername(), "alice");
    want(told.toSuccessResponse().getUserInfo().getStringListClaim("groups"), List.of("user", "admin"));
    want(call("/api/nimbus", tokens.getAccessToken()), 200);

    var renewed = ask(new RefreshTokenGrant(tokens.getRefreshToken())).toSuccessResponse().getTokens();
    want(call("/api/nimbus", renewed.getAccessToken()), 200);
    want(TokenIntrospectionResponse.parse(new TokenIntrospectionRequest(provider.getIntrospectionEndpointURI(),
        authentication, renewed.getAccessToken()).toHTTPRequest().send()).toSuccessResponse().isActive(), true);
    want(new TokenRevocationRequest(provider.getRevocationEndpointURI(), authentication, renewed.getRefreshToken())
        .toHTTPRequest().send().getStatusCode(), 200);
    want(call("/api/nimbus", renewed.getAccessToken()), 401);
    TokenErrorResponse refused = ask(new RefreshTokenGrant(renewed.getRefreshToken())).toErrorResponse();
    want(refused.getErrorObject().getCode(), "invalid_grant");

    AccessToken own = ask(new ClientCredentialsGrant()).toSuccessResponse().getTokens().getAccessToken();
    want(call("/api/machine", own), 200);

    State state = new State("bye");
    want(visit(new LogoutRequest(provider.getEndSessionEndpointURI(), tokens.getIDToken(), redirect, state).toURI()),
        URI.create(redirect + "?state=bye"));
  }

  public static void main(String[] args) throws Exception {
    new RelyingParty(args[0], Integer.parseInt(args[1]), args[2]).run();
    System.exit(0);
  }
}
