/* Folders that lie by namespace and name below a folder of $MSB_HOME. */
#pragma once

typedef void named_folder_visit(const char *namespace, const char *name, const char *folder,
                                void *context);

/* Visits those of $MSB_HOME/KIND, in no order; of all namespaces when it is NULL. Hidden ones are
 * left out. */
void named_folders_visit(const char *kind, const char *namespace, named_folder_visit *visit,
                         void *context);
