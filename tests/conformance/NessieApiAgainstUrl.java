package headwater.conformance;

import java.net.URI;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.projectnessie.client.ext.NessieClientResolver;
import org.projectnessie.jaxrs.tests.BaseTestNessieRest;

/** Nessie's own REST tests, against the server that the system property names. */
@ExtendWith(NessieApiAgainstUrl.Server.class)
public class NessieApiAgainstUrl extends BaseTestNessieRest {
  public static class Server extends NessieClientResolver {
    @Override
    protected URI getBaseUri(ExtensionContext context) {
      return URI.create(System.getProperty("nessie.test.base"));
    }
  }
}
